"""A new attention, feed-forward, norm, objective or body is counted, trained, resumed and shown."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points
from bertc.base.diagnostics import DataError, StoppedError
from bertc.cost import estimate
from bertc.cost.execution import ANY
from bertc.cost.rules import cost
from bertc.hub.exporting import export_model
from bertc.ir import operation as op
from bertc.ir.base import Node
from bertc.ir.learning.objective import Objective, Term
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Mlp
from bertc.ir.network.norm import PostNorm
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import TaskStage, TextStage
from bertc.learn.objectives import terms
from bertc.model import EncoderInputs, attention, build, ffn, model, norm
from bertc.model.weights import Table
from bertc.run.models.loading import load
from bertc.run.train import finish
from bertc.run.train.loop import train
from bertc.use.preview import preview
from tests import new_kinds as new
from tests.hub.programs import tensors, words
from tests.net.programs import FARM, spec
from tests.run.test_training import stop_after

PARTS: dict[str, tuple[type[Node], str, Any, dict[str, Any]]] = {
    "attention": (Encoder, "attention", new.Mean | FullAttention, {"attention": new.Mean()}),
    "feed-forward": (Encoder, "ffn", new.Gated | Mlp, {"ffn": new.Gated()}),
    "norm": (Encoder, "norm", new.PostMean | PostNorm, {"norm": new.PostMean()}),
    "objective": (Term, "objective", new.Long | Objective, {}),
    "body": (TextStage, "encoder", new.Gru | Encoder, {}),
}
"""Of each sort the union that it joins, by node and field, and what an encoder changes."""


def built(kind: type[Node], module: Any, others: Callable[..., Any]) -> Callable[..., Any]:
    """The one match of a sort, with one case more."""

    def match(table: Table, name: str, node: Any, *rest: Any) -> Any:
        found = {new.Mean: "attention", new.Gated: "ffn"}.get(kind)
        own = getattr(node, found) if found else node
        return (
            module(table, name, node, *rest)
            if isinstance(own, kind)
            else others(table, name, node, *rest)
        )

    return match


def made(kind: type[Node], module: Any, others: Callable[..., Any]) -> Callable[..., Any]:
    """The one match of nodes without a table, with one case more."""
    return lambda node: module(node) if isinstance(node, kind) else others(node)


def put(monkeypatch: pytest.MonkeyPatch, name: str, before: Any, after: Any) -> None:
    """Wherever the package has imported that function."""
    for module in [m for at, m in sys.modules.items() if at.startswith("bertc.")]:
        if getattr(module, name, None) is before:
            monkeypatch.setattr(module, name, after)


def rebuild() -> None:
    for node in (Encoder, Term, TextStage, TaskStage, Resolved):
        node.model_rebuild(force=True)


@pytest.fixture(params=PARTS)
def plugged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolved]:
    """A tiny program with the new kind: it is in its union, and in the one match."""
    owner, field, union, changes = PARTS[request.param]
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    for name, kind, module, before in (
        ("build_attention", new.Mean, new.MeanAttention, attention.build_attention),
        ("build_ffn", new.Gated, new.GatedFeedForward, ffn.build_ffn),
        ("build_norm", new.MeanAbsolute, new.MeanAbsoluteNorm, norm.build_norm),
    ):
        put(monkeypatch, name, before, built(kind, module, before))
    for name, node, module, before in (
        ("tensors_of", new.Long, new.LongTensors, terms.tensors_of),
        ("build_body", new.Gru, new.GruModule, model.build_body),
    ):
        put(monkeypatch, name, before, made(node, module, before))
    info = owner.model_fields[field]
    monkeypatch.setattr(info, "annotation", union)
    monkeypatch.setattr(info, "metadata", [])
    rebuild()
    (resolved,) = points(spec("mlm"))
    (stage,) = resolved.stages
    encoder, objective = stage.encoder.model_copy(update=changes), stage.objective
    if request.param == "objective":
        objective = (*objective, Term(objective=new.Long(), weight=2.0))
    if request.param == "body":
        shared = {name: getattr(encoder, name) for name in BodyNode.model_fields}
        encoder = new.Gru(**{**shared, "hidden": 24}, layers=2)
    stage = stage.model_copy(update={"encoder": encoder, "objective": objective})
    yield resolved.model_copy(update={"stages": (stage,)})
    monkeypatch.undo()
    rebuild()


def test_a_new_part_is_counted_trained_resumed_and_shown(
    plugged: Resolved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Resolved.model_validate_json(plugged.model_dump_json())
    assert again.fingerprint() == plugged.fingerprint()
    assert again.encoder == plugged.encoder
    built = sum(weight.numel() for weight in build(plugged).parameters())
    told = estimate(plugged, "h200")
    assert told.parameters.total == built
    if isinstance(plugged.encoder, new.Gru):
        assert [cost.part for cost in told.stages[0].where][1] == "recurrence"
    cache = tmp_path / "cache"
    train(plugged, tmp_path / "straight", cache=cache, quiet=True)
    with pytest.raises(StoppedError):
        stop_after(
            monkeypatch, 2, lambda: train(plugged, tmp_path / "run", cache=cache, quiet=True)
        )
    train(plugged, tmp_path / "run", cache=cache, quiet=True, resume=True)
    one, other = (load(tmp_path / name).state_dict() for name in ("straight", "run"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    shown = preview(plugged, 1, color=False, cache=cache)
    assert all(term.name in shown for term in plugged.stages[0].objective)


def test_what_a_new_part_computes_is_what_it_states(plugged: Resolved) -> None:
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
        ("norm", "norm=post"), ("body", "body=gru"),
    ],
    indirect=["plugged"],
)  # fmt: skip
def test_a_new_part_is_refused_with_a_reason(
    plugged: Resolved, setting: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as refused:
        export_model(plugged, tensors(plugged), words(), tmp_path / "m", strict=True)
    assert refused.value.message.startswith(f"{setting} stands in the way: ")
