"""Hard negatives: ranks, limits and what fills up, beside a search written out."""

import numpy as np
import pytest

from bertc.base.diagnostics import DataError
from bertc.data.cache.store import Silent
from bertc.data.examples.mined import mined
from bertc.ir.learning.mining import Mined
from tests.data.test_prepare import Notes

# Angles of texts: the cosine of two is that of their difference.
ANGLES = {"q": 0.0, "near": 5, "p": 10, "p2": 12, "a": 14, "b": 30, "c": 50, "d": 90, "r": 95}
PAIRS = [("q", "p"), ("Q ", "p2"), *((f"{t} asked", t) for t in ("near", "a", "b", "c", "d"))]


class Angles:
    calls = 0

    def digest(self, folder):
        return folder

    def likeness(self, folder, queries, passages, progress):
        self.calls += 1
        asked, found = (
            np.array([np.deg2rad(ANGLES[text.split()[0].lower()]) for text in texts])
            for texts in (queries, passages)
        )
        cosines = np.cos(asked[:, None] - found)
        yield from (cosines[:3].astype(np.float32), cosines[3:].astype(np.float32))

    def judged(self, folder, pairs):
        return [{"p": 0.9, "b": 0.89}.get(passage.split()[0], 0.2) for _, passage in pairs]


TAKEN = {
    # The positive has a cosine of .985, so texts above .965 are false negatives: near, and a.
    "limit": ({"margin": 0.98, "number": 2}, ("b", "c")),
    "judged": ({"margin": 0.95, "number": 2, "judge": "j"}, ("near", "a")),
    "no limit": ({"margin": 1, "number": 2}, ("a", "b")),
    "ranks": ({"margin": 1, "skip": 2, "top": 4, "number": 2}, ("b", "c")),
}


@pytest.mark.parametrize("name", TAKEN)
def test_negatives_are_the_nearest_that_are_not_too_near(name, tmp_path):
    arguments, expected = TAKEN[name]
    networks = Angles()
    found = mined(Mined(run="r", **arguments), "e", PAIRS, networks, tmp_path, Silent())
    assert found[0] == expected, "neither the positive nor another one of the same query"
    again = mined(Mined(run="r", **arguments), "e", PAIRS, networks, tmp_path, Silent())
    assert (again, networks.calls) == (found, 1), "mined once, and read from the cache"


def test_random_passages_fill_up_and_repeated_ones_are_one(tmp_path):
    progress = Notes()
    node = Mined(run="r", margin=0.5, number=4)
    pairs = [*PAIRS, ("q", "P  ")]
    found = mined(node, "e", pairs, Angles(), tmp_path, progress)
    assert all(len({*row, "p"}) == 5 for row in (found[0], found[-1]))
    assert found[0][0] == "d", "the one at less than half of the positive's cosine"
    assert "of the negatives are random" in progress.notes[0]
    with pytest.raises(DataError, match="too few to take 6 negatives"):
        mined(Mined(run="r", number=6), "e", PAIRS, Angles(), tmp_path, Silent())
