"""Texts made to break a reader get an answer: a diagnostic, never an exception, never a flood."""

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics, render
from bertc.check import passes
from tests.lang import mutated

GRID = "={1,2,3,4,5,6,7,8,9,10}"
HOSTILE = {
    "deep parentheses": "share = " + "(" * 100_000,
    "deep calls": "share = " + "f(" * 100_000,
    "deep lists": "heads = " + "[" * 100_000 + "]" * 100_000,
    "deep blocks": "a { " * 50_000,
    "closers, then openers": ")" * 5_000 + "[" * 3_000,
    "a number of 5,000 digits": "layers = " + "9" * 5_000,
    "a number of 300 digits": "layers = 1e300",
    "an infinite number": "holdout = 1e999",
    "two megabytes": "x" * (2 << 20),
    "a name of a megabyte": "x" * ((1 << 20) - 2),
    "a string of a megabyte": f'data = "{"x" * ((1 << 20) - 20)}"',
    "settings without end": "layers=12 " * 6_600,
    "settings unknown without end": " ".join(f"x{n}=1" for n in range(6_600)),
    "stages without end": " ".join(f'stage "s{n}" {{ seq=128 }}' for n in range(2_800)),
    "commas without end": "," * 19_000,
    "a list without commas": "heads=[" + "1 " * 9_000 + "]",
    "a wrong list": "heads=[" + "0," * 9_500 + "]",
    "a wrong sum": "objective=" + "+".join(["mlx"] * 9_500),
    "a ratio without end": "objective=mlm(replace=" + "/".join(["1"] * 9_000) + ")",
    "a grid that explodes": " ".join(name + GRID for name in "LHAFEVSB"),
    "strays": "$" * 1_000_000,
    "strays apart": "$ " * 500_000,
    "zeros": "\0" * 1_000_000,
    "quotes that escape": '"\\' * 500_000,
    "open quotes": '" ' * 500_000,
    "open calls without end": "a=f(b c=1 " * 2_000,
    "brackets mixed": "a=([)] " * 2_800,
    "bases without end": "extends bert-base " * 9_000,
    "an empty list": "heads = []  ffn = []",
}


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile(title: str) -> None:
    diagnostics = Diagnostics()
    programs = lang.load("\n" + HOSTILE[title], (), diagnostics)
    assert 1 <= len(diagnostics.found) < 200
    assert len(programs) <= 1
    for program in programs:
        passes.complete(program, diagnostics)
    assert max(map(len, render(diagnostics.found).splitlines())) < 500


def test_what_is_shown_cannot_steer_a_terminal() -> None:
    diagnostics = Diagnostics()
    text = '\u202elayers\x1b[31m = "\x07\u2066" hiden\x00 = 1'
    lang.load(text, (), diagnostics)
    shown = render(diagnostics.found)
    assert not set(shown) & set("\u202e\u2066\x1b\x07\x00")
    assert "\\u202elayers\\x1b[31m" in shown


def test_colour_is_the_only_difference_that_colour_makes() -> None:
    diagnostics = Diagnostics()
    lang.load("hiden = 1\nhidden = 2 H = 3", (), diagnostics)
    colored = render(diagnostics.found, color=True)
    assert "\x1b[1;31m" in colored
    for style in ("1;31", "34", "1;36", "1;32", "0"):
        colored = colored.replace(f"\x1b[{style}m", "")
    assert colored == render(diagnostics.found)


def test_random_and_mutated_texts() -> None:
    mistakes = [mutated.check(text) for text in mutated.texts(300, seed=7)]
    assert sum(1 for count in mistakes if count) > 200
