"""New ideas, each defined here or in new_kinds.py alone: no other file has to know of it."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points
from bertc.base.diagnostics import DataError
from bertc.cost import estimate
from bertc.cost.figures import ANY
from bertc.cost.rules import cost
from bertc.hub import families
from bertc.hub.families import family_for
from bertc.hub.families.config import HfConfig, Single, Tokens
from bertc.hub.families.family import Family, Reshape, TaskHeads, hf_class
from bertc.hub.leaving.exporting import export_model
from bertc.ir import operation as op
from bertc.ir.base import Node
from bertc.ir.learning.objective import Objective, Term
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Mlp
from bertc.ir.network.norm import PostNorm, PreNorm
from bertc.ir.network.positions import LearnedPositions, SinusoidalPositions
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import TaskStage, TextStage
from bertc.ir.vocabulary import WordPiece
from bertc.learn.objectives import terms
from bertc.model import EncoderInputs, build, ffn, norm
from bertc.model.attention import kinds as attention
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from bertc.run.train.loop import train
from bertc.use.preview import preview
from bertc.use.source.checking import check_source
from bertc.use.source.file import emit_source
from tests import new_kinds as new
from tests.hub.hf_models import config_of, respell
from tests.hub.programs import Wordless, program, tensors
from tests.net.programs import FARM, spec
from tests.run.conftest import lines, resumed_is_the_same


class HfToy(HfConfig):
    """A configuration with a name of its own, a setting without effect and one with one value."""

    spelling = {"width": "hidden_size"}
    ignored = frozenset({"colour"})
    only = {"sideways": Single(False, "words stand on their heads")}

    model_type: Literal["toy"] = "toy"
    type_vocab_size: Literal[0] = 0

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "norm": PreNorm(eps=self.layer_norm_eps)}

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        return {**super().values(encoder, tokens), "type_vocab_size": 0}


def turned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(*reversed(range(tensor.ndim)))


TOY = Family(
    title="Toy",
    config=HfToy,
    prefix="toy",
    names={
        "encoder.embeddings.token": "words", "encoder.embeddings.position": "places",
        "encoder.attention.{n}.query": "block.{n}.q", "encoder.attention.{n}.key": "block.{n}.k",
        "encoder.attention.{n}.value": "block.{n}.v", "encoder.attention.{n}.output": "block.{n}.o",
        "encoder.attention.{n}.norm": "block.{n}.before", "encoder.ffn.{n}.inner": "block.{n}.up",
        "encoder.ffn.{n}.outer": "block.{n}.down", "encoder.ffn.{n}.norm": "block.{n}.between",
        "encoder.norm": "last", "heads.mlm.dense": "guess.dense", "heads.mlm.norm": "guess.norm",
        "heads.mlm": "guess",
    },
    copies={"guess.table": "words.weight"},
    classes=(hf_class("ToyForMaskedLM", "mlm"), hf_class("ToyModel")),
    tasks=TaskHeads((), dropout="classifier_dropout", otherwise="Toy has no class for tasks"),
    claims=lambda candidate: candidate.encoder.norm.kind == "pre",
    recipe="bert",
    vocabulary=WordPiece,
    reshape=Reshape(
        shape=lambda encoder, name, shape: shape[::-1],
        out=lambda encoder, name, tensor: turned(tensor),
        back=lambda name, tensor, shape: turned(tensor),
    ),
)  # fmt: skip


@pytest.fixture
def toy_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """The family in its place in the tuple."""
    monkeypatch.setattr(families, "FAMILIES", (TOY, *families.FAMILIES))


def toy(**settings: Any) -> Resolved:
    return program(**{"norm": PreNorm(), "segments": 0, **settings})


@pytest.fixture
def toy_folder(toy_family: None, tmp_path: Path) -> Path:
    """A network of the family as it was exported."""
    resolved = toy(activation="relu")
    exported = export_model(resolved, tensors(resolved), Wordless(0), tmp_path / "m", strict=True)
    assert (exported.layout, exported.architecture) == ("toy", "ToyForMaskedLM")
    return tmp_path / "m"


def test_a_new_family_comes_back_as_it_went_out(toy_folder):
    resolved = toy(activation="relu")
    ours, again = build(resolved), load(toy_folder)
    ours.load_state_dict({**ours.state_dict(), **tensors(resolved)})
    token_ids_bs = torch.randint(5, 97, (2, 9), generator=torch.Generator().manual_seed(1))
    seen_bs = torch.ones(2, 9, dtype=torch.bool)
    with torch.no_grad():
        wanted = ours.eval().encode(token_ids_bs, None, seen_bs)
        assert torch.equal(again.encode(token_ids_bs, None, seen_bs), wanted)
    back = import_model(toy_folder)
    assert again.untrained == frozenset()
    assert back.resolved.encoder.norm == resolved.encoder.norm


@pytest.mark.parametrize(("settings", "setting", "why"), [
    ({"segments": 2}, "segments=2", "the Toy layout has segments=0"),
    ({"norm": PreNorm(affine=False)}, "norm=pre(affine=false)", "has norm=pre"),
    ({"positions": LearnedPositions(rows=18, offset=2)}, "positions=learned(18, offset=2)",
     "has positions=learned(16)"),
    ({"positions": SinusoidalPositions()}, "positions=sinusoidal", "positions=learned(16)"),
])  # fmt: skip
def test_a_new_family_refuses_with_a_reason(settings, setting, why, toy_family, tmp_path):
    assert why in obstacle(toy(**settings), setting, tmp_path)


def obstacle(resolved: Resolved, setting: str, folder: Path) -> str:
    """What a strict export says of the setting that stands in the way."""
    with pytest.raises(DataError) as refused:
        export_model(resolved, tensors(resolved), Wordless(0), folder / "m", strict=True)
    assert refused.value.message.startswith(f"{setting} stands in the way: ")
    return refused.value.message


def test_a_new_family_reads_of_its_configuration_what_it_says(toy_folder):
    sound = config_of(toy_folder)
    for changed, said in ({"sideways": True}, "sideways = true"), ({"width": "x"}, 'width = "x"'):
        respell(toy_folder, **{"sideways": False, **sound, **changed})
        pytest.raises(DataError, import_model, toy_folder).match(f"unsupported {said}")
    respell(toy_folder, **sound, colour="red", sideways=False, twist=3)
    config = import_model(toy_folder).config
    assert (config.model_type, config.unread) == ("toy", ("twist",))


class Windowed(FullAttention):
    """A kind of attention that no family knows."""

    kind: Literal["windowed"] = "windowed"  # type: ignore[assignment]


class Capped(FullAttention):
    """A kind with an argument that no family knows."""

    cap: int = 0


class Turned(Encoder):
    """A setting of the network that no family knows."""

    turns: int = 0


OWN = program().encoder


@pytest.mark.parametrize(("encoder", "setting"), [
    (OWN.model_copy(update={"attention": Windowed()}), "attention=windowed"),
    (OWN.model_copy(update={"attention": Capped(cap=3)}), "attention=full(cap=3)"),
    (Turned(**dict(OWN), turns=2), "kind=turned"),
])  # fmt: skip
def test_what_no_family_lists_is_never_left_out_or_written_as_another(encoder, setting):
    resolved = program()
    stage = resolved.stages[0].model_copy(update={"encoder": encoder})
    assert family_for(resolved.model_copy(update={"stages": (stage,)}), 0).setting == setting


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


def rebuild() -> None:
    for node in (Encoder, Term, TextStage, TaskStage, Resolved):
        node.model_rebuild(force=True)


@pytest.fixture(params=PARTS)
def plugged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolved]:
    """A tiny program with the new kind: it is in its union, and in the one match."""
    owner, field, union, changes = PARTS[request.param]
    monkeypatch.chdir(FARM)
    package = [module for name, module in sys.modules.items() if name.startswith("bertc.")]
    for match, kind, tensor_class in NEW:
        for module in package:  # wherever it has imported the function
            if getattr(module, match.__name__, None) is match:
                extended = with_one_more(match, kind, tensor_class)
                monkeypatch.setattr(module, match.__name__, extended)
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
    monkeypatch.setenv("BERTC_CACHE", str(cache := tmp_path / "cache"))
    go = partial(train, plugged, cache=cache, quiet=True)
    resumed_is_the_same(go, monkeypatch, tmp_path, 2)
    *_, last = lines(tmp_path / "broken")
    assert {*last["unigram_losses"]} == {"mlm", "mlm_masked", "mlm_replaced", "mlm_visible"}
    shown = preview(plugged, 1, color=False)
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


IN_THE_WAY = {
    "attention": "attention=mean", "feed-forward": "activation=gated", "norm": "norm=post",
}  # fmt: skip


@pytest.mark.parametrize("plugged", IN_THE_WAY, indirect=True)
def test_a_new_part_is_refused_with_a_reason(plugged, request, tmp_path):
    assert obstacle(plugged, IN_THE_WAY[request.node.callspec.params["plugged"]], tmp_path)


def test_a_new_part_is_written_as_source(plugged):
    check_source(emit_source(plugged), plugged)
