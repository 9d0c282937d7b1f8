"""Ideas in pairs, a sample: estimated as built and trained, or refused with a way out.

All of them take an hour and more: ``python -m tests.campaigns.pairs``.
"""

import os
from pathlib import Path

import pytest

from tests.campaigns.ideas import AXES, written
from tests.campaigns.pairs import material, outcome, pairs, without_way_out

TRAINED = tuple(
    (AXES[one][i], AXES[other][j])
    for one, i, other, j in (
        ("positions", 1, "share", 3), ("attention", 2, "objective", 7),
        ("activation", 1, "objective", 14), ("attention", 0, "optimizer", 4),
        ("head", 1, "stages", 7), ("head", 1, "init", 1), ("norm", 1, "freeze", 0),
    )
)  # fmt: skip
"""Rotary with groups, windows with rtd, GLU with distillation; and those that once were wrong."""
REFUSED = (
    ("attention=full(kv_heads=1)", "format=stream-pair"),
    ("share=all", "ffn=[64,32,64,32]"),
    ("share=map([0,1,0,1],[0,0,2,2])", "init=layers('bert',[0,3]) layers=2"),
    ("heads=[2,4,2,4] head_dim=8", "init=layers('bert',[0,3]) layers=2"),
    *(pair for pair in pairs() if "objective=clm steps=2" in pair[1]),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The farm and a run in it."""
    here, before = tmp_path_factory.mktemp("pairs"), Path.cwd()
    try:
        material(here)
    finally:
        os.chdir(before)
    return here


@pytest.mark.parametrize("pair", TRAINED, ids=" ".join)
def test_two_ideas_are_estimated_as_built_and_train(pair, place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    found = outcome(pair, tmp_path / "run", place / "cache")
    assert (found.refused, found.wrong) == ((), ())


def test_a_refusal_has_a_way_out(place, monkeypatch):
    monkeypatch.chdir(place)
    for pair in REFUSED[:24]:
        assert without_way_out(written(*pair)) == [], pair
