"""A new attention, feed-forward, norm or objective is counted, trained, resumed and shown."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points
from bertc.base.diagnostics import DataError
from bertc.cost import estimate
from bertc.cost.execution import ANY
from bertc.cost.rules import cost
from bertc.hub.exporting import export_model
from bertc.ir import operation as op
from bertc.ir.base import Node
from bertc.ir.learning.objective import Objective, Term
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Mlp
from bertc.ir.network.norm import PostNorm
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import TaskStage, TextStage
from bertc.learn.objectives import terms
from bertc.model import EncoderInputs, attention, build, ffn, norm
from bertc.run.models.loading import load
from bertc.run.train import finish
from bertc.run.train.loop import train
from bertc.use.preview import preview
from tests import new_kinds as new
from tests.hub.programs import tensors, words
from tests.net.programs import FARM, spec
from tests.run.conftest import stop_after

PARTS: dict[str, tuple[type[Node], str, Any, dict[str, Any]]] = {
    "attention": (Encoder, "attention", new.Mean | FullAttention, {"attention": new.Mean()}),
    "feed-forward": (Encoder, "ffn", new.Gated | Mlp, {"ffn": new.Gated()}),
    "norm": (Encoder, "norm", new.PostMean | PostNorm, {"norm": new.PostMean()}),
    "objective": (Term, "objective", new.Long | Objective, {}),
}
"""Of each sort the union that it joins, by node and field, and what an encoder changes."""


NEW: tuple[tuple[Callable[..., Any], type[Node], Any], ...] = (
    (attention.build_attention, new.Mean, new.MeanAttention),
    (ffn.build_ffn, new.Gated, new.GatedFeedForward),
    (norm.build_norm, new.MeanAbsolute, new.MeanAbsoluteNorm),
    (terms.tensors_of, new.Long, new.LongTensors),
)
"""The one match of each sort, and what it has to make of which node."""


def with_one_more(match: Callable[..., Any], kind: type[Node], module: Any) -> Callable[..., Any]:
    """The match with one case more; of an encoder it looks at its part."""
    part = {new.Mean: "attention", new.Gated: "ffn"}.get(kind, "")

    def chosen(*values: Any) -> Any:
        node = values[0] if len(values) == 1 else values[2]  # behind a table and a name
        return (module if isinstance(getattr(node, part, node), kind) else match)(*values)

    return chosen


def put(monkeypatch: pytest.MonkeyPatch, before: Callable[..., Any], after: Any) -> None:
    """Wherever the package has imported that function."""
    for module in [m for at, m in sys.modules.items() if at.startswith("bertc.")]:
        if getattr(module, before.__name__, None) is before:
            monkeypatch.setattr(module, before.__name__, after)


def rebuild() -> None:
    for node in (Encoder, Term, TextStage, TaskStage, Resolved):
        node.model_rebuild(force=True)


@pytest.fixture(params=PARTS)
def plugged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolved]:
    """A tiny program with the new kind: it is in its union, and in the one match."""
    owner, field, union, changes = PARTS[request.param]
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    for match, kind, module in NEW:
        put(monkeypatch, match, with_one_more(match, kind, module))
    info = owner.model_fields[field]
    monkeypatch.setattr(info, "annotation", union)
    monkeypatch.setattr(info, "metadata", [])
    rebuild()
    (resolved,) = points(spec("mlm"))
    (stage,) = resolved.stages
    encoder, objective = stage.encoder.model_copy(update=changes), stage.objective
    if request.param == "objective":
        objective = (*objective, Term(objective=new.Long(), weight=2.0))
    stage = stage.model_copy(update={"encoder": encoder, "objective": objective})
    yield resolved.model_copy(update={"stages": (stage,)})
    monkeypatch.undo()
    rebuild()


def test_a_new_part_is_counted_trained_resumed_and_shown(plugged, tmp_path, monkeypatch):
    again = Resolved.model_validate_json(plugged.model_dump_json())
    assert again.fingerprint() == plugged.fingerprint()
    assert again.encoder == plugged.encoder
    built = sum(weight.numel() for weight in build(plugged).parameters())
    assert estimate(plugged, "h200").parameters.total == built
    cache = tmp_path / "cache"
    train(plugged, tmp_path / "straight", cache=cache, quiet=True)
    stop_after(monkeypatch, 2, lambda: train(plugged, tmp_path / "run", cache=cache, quiet=True))
    train(plugged, tmp_path / "run", cache=cache, quiet=True, resume=True)
    one, other = (load(tmp_path / name).state_dict() for name in ("straight", "run"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    shown = preview(plugged, 1, color=False, cache=cache)
    assert all(term.name in shown for term in plugged.stages[0].objective)


def test_what_a_new_part_computes_is_what_it_states(plugged):
    (stage,) = plugged.stages
    ids = torch.zeros(4, stage.seq, dtype=torch.long, device="meta")
    module = build(plugged, device="meta")
    with FlopCounterMode(display=False) as counter:
        module.read(EncoderInputs(ids, ids))
    call = op.Call(rows=4, tokens=stage.seq, queries=stage.seq)
    stated = sum(cost(each, ANY).flops for each in stage.encoder.operations(call).operations())
    assert counter.get_total_flops() == stated


@pytest.mark.parametrize(
    ("plugged", "setting"),
    [
        ("attention", "attention=mean"), ("feed-forward", "activation=gated"),
        ("norm", "norm=post"),
    ],
    indirect=["plugged"],
)  # fmt: skip
def test_a_new_part_is_refused_with_a_reason(plugged, setting, tmp_path):
    with pytest.raises(DataError) as refused:
        export_model(plugged, tensors(plugged), words(), tmp_path / "m", strict=True)
    assert refused.value.message.startswith(f"{setting} stands in the way: ")
