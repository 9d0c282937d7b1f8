"""``init``: a run that begins with chosen layers, or with the embeddings, of another network."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import bertc
from bertc.api import points
from bertc.base.diagnostics import DataError, SpecError
from bertc.ir.program.resolved import Resolved
from bertc.run.beginning.init_from import source_of
from bertc.run.models.loading import read_model
from tests.net.programs import TOY
from tests.run.conftest import text

DEEP = {**TOY, "layers": "4", "heads": "[1, 2, 2, 1]", "objective": "mlm", "steps": "2"}
SMALL = {**TOY, "vocab": "", "steps": "4", "objective": "mlm"}
pytestmark = pytest.mark.usefixtures("in_the_farm")
OF_NETWORK = ("layers", "hidden", "heads", "ffn", "segments")


@pytest.fixture
def deep(farm_run: Callable[[str], Path]) -> Path:
    """A network of four layers, not all with as many heads, that learned mlm."""
    return farm_run(text(DEEP))


def student(init: str, **changed: str) -> Resolved:
    open_ = dict.fromkeys(OF_NETWORK, "")
    return points(text({**SMALL, **open_, "init": init, **changed}))[0]


def begun(resolved: Resolved) -> dict[str, torch.Tensor]:
    return dict(bertc.build(resolved).named_parameters())


def layer_of(weights: Any, number: int) -> list[torch.Tensor]:
    parts = (f"encoder.attention.{number}.", f"encoder.ffn.{number}.")
    return [weights[name] for name in sorted(weights) if name.startswith(parts)]


@pytest.mark.parametrize(
    ("chosen", "own", "taken"),
    [
        ("[3, 0]", "", [3, 0]),
        ("[1, 1, 2]", "", [1, 1, 2]),
        ("uniform", "2", [1, 3]),
        ("first", "3", [0, 1, 2]),
        ("top", "2", [2, 3]),
        ("top", "", [0, 1, 2, 3]),
    ],
)
def test_layers_are_the_chosen_ones(deep, chosen, own, taken):
    resolved = student(f'layers("{deep}", {chosen})', layers=own)
    old, there = read_model(deep)
    here = begun(resolved)
    layers = resolved.stages[0].encoder.layers  # type: ignore[union-attr]
    assert [layer.heads for layer in layers] == [old.encoder.layers[n].heads for n in taken]  # type: ignore[union-attr]
    for number, source in enumerate(taken):
        pairs = zip(layer_of(here, number), layer_of(there, source), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
    rest = [n for n in here if not n.startswith(("encoder.attention.", "encoder.ffn."))]
    assert all(torch.equal(here[name], there[name]) for name in rest)


def test_weights_without_a_place_are_left_out_and_listed(deep):
    source = source_of(student(f'layers("{deep}", [0, 2])', segments="0"))
    assert source is not None
    lines = [line.partition(": ")[2] for line in source.lines()]
    assert "layers 0, 2" in lines
    assert "its encoder.embeddings.segment.weight is left out" in lines


def test_the_layers_of_the_teacher_need_no_path_of_their_own(deep):
    changed = {"teacher": f'"{deep}"', "objective": "kd(logits)+mlm"}
    one = student("layers(teacher, [0, 3])", **changed)
    other = student(f'layers("{deep}", [0, 3])', **changed)
    assert one.fingerprint() == other.fingerprint()


def test_a_run_with_chosen_layers_goes_on_to_the_same_bits(deep, resumes):
    resumes(student(f'layers("{deep}", [0, 2])'), 2)


@pytest.mark.parametrize(
    ("init", "changed", "problem"),
    [
        ("layers({}, [0, 1, 2])", {"layers": "2"}, "names 3 layers, and this network has 2"),
        ("layers({}, [0, 4])", {}, "names layer 4 of 4, counted from 0"),
        ("layers({}, first)", {"layers": "5"}, "there are 4 layers, and this network has 5"),
        ("layers({}, uniform)", {"layers": "3"}, "4 layers are no multiple of the 3"),
        ("layers({}, first)", {"hidden": "16", "heads": "1"}, "hidden is 32 there and 16 here"),
        ("layers({}, [0, 1])", {"share": "all", "heads": "1"}, "layers 1 and 0 share their"),
        ("{}", {"layers": "2", "heads": "1"}, r"begin with some of them, as in init=layers\("),
    ],
)
def test_layers_that_are_not_there_or_do_not_fit_are_refused(deep, init, changed, problem):
    with pytest.raises((SpecError, DataError)) as refused:
        bertc.build(student(init.format(f'"{deep}"'), **changed))
    error: Any = refused.value
    error_text = str(error) if isinstance(error, SpecError) else f"{error.message} {error.help}"
    assert re.search(problem, error_text), error_text


def test_memory_is_refused_where_one_init_replaces_another(deep):
    """The attention of an ``init`` replaced no attention, and the help still says one."""
    with pytest.raises(SpecError, match="attention=relative"):
        points(f'init="{deep}"', [f'init=layers("{deep}", [0, 1]) memory=4'])
