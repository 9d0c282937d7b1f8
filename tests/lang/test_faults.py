"""Two mistakes in one spec are two messages, and hardly more."""

import random
import re
from itertools import accumulate

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics

LINES = (
    "layers = 12", "hidden = 768", "share = groups(4)", "vocab = wordpiece(30k, lower=true)",
    "objective = mlm(p=15%, unit=ngram(max=3), replace=80/10/10) + 2*sop",
    'data = 0.7*files("corpus/*.txt", column="text") + docstrings',
    "optimizer = lamb(lr=1.76e-3, warmup=3125, betas=[0.9, 0.999])", "steps = 125k", "batch = 4096",
    "activation = gelu-tanh",
)  # fmt: skip

FAULTS = (
    ("=", ""), (",", ""), (r"\)", ""), (r"\]", ""), ('"', ""),  # what is left out
    ("$", ","), ("$", ")"), (" |$", "$"), (" |$", ";"), (" |$", "@"),  # what is too much
    (r"\b([a-z])([a-z])(?=[a-z]{2})", r"\2\1"), ("(?<== )[0-9]+", "-7"), (r"k\b", "kb"),
    ("=.*", "="),
)  # fmt: skip
"""Faults of a line: what is found, and what is there instead."""


def faulty(line: str, draw: random.Random) -> str:
    pattern, instead = draw.choice(FAULTS)
    places = list(re.finditer(pattern, line))
    if not places:
        return line
    place = draw.choice(places)
    return line[: place.start()] + place.expand(instead) + line[place.end() :]


def find(text: str) -> list[tuple[str, int]]:
    diagnostics = Diagnostics()
    lang.load(text, (), diagnostics)
    return [(d.code, d.span.start if d.span else -1) for d in diagnostics.found]


def draws(count: int, draw: random.Random) -> list[tuple[int, str]]:
    """Numbers of lines, each with the line that has a fault."""
    made: list[tuple[int, str]] = []
    while len(made) < count:
        place = draw.randrange(len(LINES))
        line = faulty(LINES[place], draw)
        if find(line):
            made.append((place, line))
    return made


@pytest.mark.parametrize("separator", ["\n", "  "], ids=["file", "line"])
def test_double_faults(separator):
    made, bad = draws(400, random.Random(1)), []
    pairs = [(a, b) for a, b in zip(made[::2], made[1::2], strict=True) if a[0] != b[0]]
    for pair in pairs:
        lines = list(LINES)
        for place, line in pair:
            lines[place] = line
        found = find(separator.join(lines))
        starts = [0, *accumulate(len(line) + len(separator) for line in lines)]
        both = all(any(starts[p] <= at < starts[p + 1] for _, at in found) for p, _ in pair)
        if not both or len(found) > 3:
            bad.append(f"{pair}: {found}")
    assert len(pairs) > 150
    assert len(bad) <= 0.06 * len(pairs), "\n\n".join(bad)
