"""New ideas, each defined in this file alone: no other file of the house has to know of it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from bertc.api import points
from bertc.diagnostics import DataError, StoppedError
from bertc.estimate import estimate
from bertc.inference.preview import preview
from bertc.interop import families
from bertc.interop.exporting import export_model
from bertc.interop.families import bert_like, family_for
from bertc.interop.families.config import HfConfig
from bertc.interop.families.family import Candidate, Family, Reshape, TaskHeads, Tokens, hf_class
from bertc.interop.families.obstacle import Obstacle
from bertc.interop.importing import import_model
from bertc.interop.loading import load
from bertc.ir.base import Weight
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.positions import LearnedPositions, SinusoidalPositions
from bertc.ir.network.wanted import Wanted
from bertc.ir.operation import Call, Forward
from bertc.ir.program.resolved import Resolved, Stage
from bertc.ir.vocabulary import WordPiece
from bertc.nn import EncoderInputs, build, model
from bertc.nn.body import LAST_STATES, BodyModule, Outputs
from bertc.nn.embeddings import Embeddings
from bertc.nn.inputs import gather_positions
from bertc.train import finish
from bertc.train.loop import train
from tests.interop.programs import program, tensors, words
from tests.net.programs import FARM, spec
from tests.train.test_training import stop_after


class HfToy(HfConfig):
    """A configuration with a name of its own, a setting without effect and one with one value."""

    spelling = {"width": "hidden_size"}
    ignored = {"colour": "seen by nobody"}
    only = {"sideways": False}

    model_type: Literal["toy"] = "toy"
    type_vocab_size: Literal[0] = 0


def toy_obstacle(candidate: Candidate) -> Obstacle | None:
    if candidate.encoder.segments:
        return Obstacle("segments", "the Toy layout has no token types", "segments=0")
    return None


def toy_settings(config: HfToy) -> dict[str, Any]:
    return {**bert_like.settings_of(config), "norm": PreNorm(eps=config.layer_norm_eps)}


def toy_config(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    known = bert_like.config_of(encoder, tokens)
    return {"width": known.pop("hidden_size"), **known}


def turned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(*reversed(range(tensor.ndim)))


TOY = Family(
    model_type="toy",
    title="Toy",
    config=HfToy,
    prefix="toy",
    names={
        "encoder.embeddings.token": "words",
        "encoder.embeddings.position": "places",
        "encoder.attention.{n}.query": "block.{n}.q",
        "encoder.attention.{n}.key": "block.{n}.k",
        "encoder.attention.{n}.value": "block.{n}.v",
        "encoder.attention.{n}.output": "block.{n}.o",
        "encoder.attention.{n}.norm": "block.{n}.before",
        "encoder.ffn.{n}.inner": "block.{n}.up",
        "encoder.ffn.{n}.outer": "block.{n}.down",
        "encoder.ffn.{n}.norm": "block.{n}.between",
        "encoder.norm": "last",
        "heads.mlm.dense": "guess.dense",
        "heads.mlm.norm": "guess.norm",
        "heads.mlm": "guess",
    },
    copies={"guess.table": "words.weight"},
    classes=(hf_class("ToyForMaskedLM", "mlm"), hf_class("ToyModel")),
    tasks=TaskHeads((), dropout="classifier_dropout", otherwise="Toy has no class for tasks"),
    says={
        **{kind: told for kind, told in bert_like.SAYS.items() if kind is not LearnedPositions},
        LearnedPositions: ("rows",),
        PreNorm: ("eps",),
    },
    claims=lambda candidate: candidate.encoder.norm.kind == "pre",
    obstacle=toy_obstacle,
    settings=toy_settings,
    config_of=toy_config,
    recipe="bert",
    vocabulary=WordPiece,
    reshape=Reshape(
        shape=lambda encoder, name, shape: shape[::-1],
        out=lambda encoder, name, tensor: turned(tensor),
        back=lambda name, tensor, shape: turned(tensor),
    ),
)


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
    exported = export_model(resolved, tensors(resolved), words(), tmp_path / "m", strict=True)
    assert (exported.layout, exported.architecture) == ("toy", "ToyForMaskedLM")
    return tmp_path / "m"


def test_a_new_family_comes_back_as_it_went_out(toy_folder: Path) -> None:
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


@pytest.mark.parametrize(
    ("settings", "setting", "why"),
    [
        ({"segments": 2}, "segments", "the Toy layout has no token types"),
        ({"norm": PreNorm(affine=False)}, "norm.affine=False", "has no setting for it"),
        ({"positions": LearnedPositions(rows=18, offset=2)}, "positions.offset=2", "no setting"),
        ({"positions": SinusoidalPositions()}, "positions=sinusoidal", "has no such kind"),
    ],
)
def test_a_new_family_refuses_with_a_reason(
    settings: dict[str, Any], setting: str, why: str, toy_family: None, tmp_path: Path
) -> None:
    resolved = toy(**settings)
    with pytest.raises(DataError) as refused:
        export_model(resolved, tensors(resolved), words(), tmp_path / "m", strict=True)
    assert refused.value.message.startswith(f"{setting} stands in the way: ")
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"twist": 3}, 'unknown setting "twist" = 3'),
        ({"sideways": True}, "unsupported sideways = true"),
        ({"width": "wide"}, 'unsupported width = "wide"'),
        ({"colour": "red", "sideways": False}, ""),
    ],
)
def test_a_new_family_reads_its_configuration_through_a_closed_list(
    changed: dict[str, Any], message: str, toy_folder: Path
) -> None:
    path = toy_folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    if not message:
        assert import_model(toy_folder).config.model_type == "toy"
        return
    with pytest.raises(DataError) as refused:
        import_model(toy_folder)
    assert message in refused.value.message


class Windowed(FullAttention):
    """A kind of attention that no family knows."""

    kind: Literal["windowed"] = "windowed"  # type: ignore[assignment]


class Capped(FullAttention):
    """A kind with an argument that no family knows."""

    cap: int = 0


@pytest.mark.parametrize(
    ("attention", "setting"),
    [(Windowed(), "attention=windowed"), (Capped(cap=3), "attention.cap=3")],
)
def test_a_kind_that_no_family_lists_is_never_written_as_another(
    attention: FullAttention, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bert = replace(families.BERT, says={**families.BERT.says, Capped: ()})
    monkeypatch.setattr(families, "FAMILIES", (bert,))
    assert_refused(program().encoder.model_copy(update={"attention": attention}), setting)


class Turned(Encoder):
    """A setting of the network that no family knows."""

    turns: int = 0


def test_a_setting_that_no_family_lists_is_never_left_out() -> None:
    assert_refused(Turned(**dict(program().encoder), turns=2), "turns=2")


def assert_refused(encoder: Encoder, setting: str) -> None:
    resolved = program()
    (stage,) = resolved.stages
    found = family_for(
        resolved.model_copy(update={"stages": (stage.model_copy(update={"encoder": encoder}),)}),
        0,
    )
    assert isinstance(found, Obstacle)
    assert found.setting == setting


class Bag(Encoder):
    """A body that is no transformer: it adds the mean of a row to the vector of each token."""

    kind: Literal["bag"] = "bag"

    def weights(self) -> tuple[Weight, ...]:
        return self.embedding_weights()

    def counted_weights(self) -> Iterator[tuple[tuple[Weight, ...], int, int]]:
        yield self.weights(), 1, 1

    def operations(self, call: Call) -> Forward:
        return replace(super().operations(call), layers=())


class BagModule(BodyModule):
    def __init__(self, node: Bag) -> None:
        super().__init__()
        self.node = node
        self.embeddings = Embeddings({weight.name: weight for weight in node.weights()}, node)

    def forward(
        self, inputs: EncoderInputs, dtype: torch.dtype, wanted: Wanted = LAST_STATES
    ) -> Outputs:
        x_bsh = self.embeddings(inputs._replace(output_positions=None), dtype)
        x_bsh = x_bsh + x_bsh.mean(dim=1, keepdim=True)
        if inputs.output_positions is not None:
            x_bsh = gather_positions(x_bsh, inputs.output_positions)
        return Outputs(x_bsh)

    def pool(self, first_h: torch.Tensor) -> torch.Tensor:
        raise ValueError("a bag has no pooler")

    def borrow(self, lender: BodyModule, names: Iterable[str]) -> None:
        raise ValueError("a bag shares nothing")

    def shard_units(self) -> Iterable[torch.nn.Module]:
        return ()

    def compile_regions(self, *, any_shape: bool = False) -> None:
        pass


@pytest.fixture
def bag(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolved]:
    """A tiny program of that body: it is in the union, and in the one match."""

    def build_body(node: Encoder, others: Any = model.build_body) -> BodyModule:
        return BagModule(node) if isinstance(node, Bag) else others(node)

    def rebuild() -> None:
        for node in (Stage, Resolved):
            node.model_rebuild(force=True)

    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    monkeypatch.setattr(model, "build_body", build_body)
    monkeypatch.setattr(Stage.model_fields["encoder"], "annotation", Bag | Encoder)
    rebuild()
    (resolved,) = points(spec("mlm"))
    (stage,) = resolved.stages
    body = Bag(**dict(stage.encoder), kind="bag")
    yield resolved.model_copy(update={"stages": (stage.model_copy(update={"encoder": body}),)})
    monkeypatch.undo()
    rebuild()


def test_a_new_body_is_counted_trained_resumed_and_shown(
    bag: Resolved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Resolved.model_validate_json(bag.model_dump_json())
    assert again.fingerprint() == bag.fingerprint()
    assert again.encoder == bag.encoder
    built = sum(parameter.numel() for parameter in build(bag).parameters())
    assert estimate(bag, "h200").parameters.total == built
    cache = tmp_path / "cache"
    train(bag, tmp_path / "straight", cache=cache, quiet=True)
    with pytest.raises(StoppedError):
        stop_after(monkeypatch, 2, lambda: train(bag, tmp_path / "run", cache=cache, quiet=True))
    train(bag, tmp_path / "run", cache=cache, quiet=True, resume=True)
    one, other = (load(tmp_path / name).state_dict() for name in ("straight", "run"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert "mlm" in preview(bag, 1, color=False, cache=cache)


def test_a_new_body_is_refused_with_a_reason(bag: Resolved, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        export_model(bag, tensors(bag), words(), tmp_path / "m", strict=True)
    assert refused.value.message.startswith("kind=bag stands in the way: ")
