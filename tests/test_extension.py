"""New ideas, each defined in this file alone: no other file of the house has to know of it."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from bertc.base.diagnostics import DataError
from bertc.hub import families
from bertc.hub.exporting import export_model
from bertc.hub.families import family_for
from bertc.hub.families.config import HfConfig, Single
from bertc.hub.families.family import Family, Obstacle, Reshape, TaskHeads, hf_class
from bertc.hub.families.tokens import Tokens
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.positions import LearnedPositions, SinusoidalPositions
from bertc.ir.program.resolved import Resolved
from bertc.ir.vocabulary import WordPiece
from bertc.model import build
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from tests.hub.programs import program, tensors, words


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
    claims=lambda candidate: candidate.encoder.norm.kind == "pre",
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


@pytest.mark.parametrize(
    ("settings", "setting", "why"),
    [
        ({"segments": 2}, "segments=2", "the Toy layout has segments=0"),
        ({"norm": PreNorm(affine=False)}, "norm=pre(affine=false)", "has norm=pre"),
        (
            {"positions": LearnedPositions(rows=18, offset=2)},
            "positions=learned(18, offset=2)",
            "has positions=learned(16)",
        ),
        ({"positions": SinusoidalPositions()}, "positions=sinusoidal", "positions=learned(16)"),
    ],
)
def test_a_new_family_refuses_with_a_reason(settings, setting, why, toy_family, tmp_path):
    resolved = toy(**settings)
    with pytest.raises(DataError) as refused:
        export_model(resolved, tensors(resolved), words(), tmp_path / "m", strict=True)
    assert refused.value.message.startswith(f"{setting} stands in the way: ")
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sideways": True}, "unsupported sideways = true"),
        ({"width": "wide"}, 'unsupported width = "wide"'),
        ({"colour": "red", "sideways": False, "twist": 3}, ""),
    ],
)
def test_a_new_family_reads_of_its_configuration_what_it_says(changed, message, toy_folder):
    path = toy_folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    if not message:
        imported = import_model(toy_folder)
        assert imported.config.model_type == "toy"
        assert imported.config.unread == ("twist",)
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
    [(Windowed(), "attention=windowed"), (Capped(cap=3), "attention=full(cap=3)")],
)
def test_a_kind_that_no_family_lists_is_never_written_as_another(attention, setting, monkeypatch):
    monkeypatch.setattr(families, "FAMILIES", (families.BERT,))
    assert_refused(program().encoder.model_copy(update={"attention": attention}), setting)


class Turned(Encoder):
    """A setting of the network that no family knows."""

    turns: int = 0


def test_a_setting_that_no_family_lists_is_never_left_out():
    assert_refused(Turned(**dict(program().encoder), turns=2), "kind=turned")


def assert_refused(encoder: Encoder, setting: str) -> None:
    resolved = program()
    (stage,) = resolved.stages
    found = family_for(
        resolved.model_copy(update={"stages": (stage.model_copy(update={"encoder": encoder}),)}),
        0,
    )
    assert isinstance(found, Obstacle)
    assert found.setting == setting
