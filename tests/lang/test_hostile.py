"""Texts made to break a reader get an answer: a diagnostic, never an exception, never a flood."""

import random
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics, MissingInputError, codes, render
from bertc.base.storage.paths import shipped_specs
from bertc.check import passes
from bertc.ir.fixes import call_text
from bertc.ir.program.settings import Settings
from bertc.lang.read.shapes import arguments, kinds_in, required, setting_shape

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


def find(text: str) -> list[tuple[str, int]]:
    diagnostics = Diagnostics()
    lang.load(text, (), diagnostics)
    return [(d.code, d.span.start if d.span else -1) for d in diagnostics.found]


def draws(count: int, draw: random.Random) -> list[tuple[int, str]]:
    """Numbers of lines, each with the line that has a fault."""
    made: list[tuple[int, str]] = []
    while len(made) < count:
        place, (pattern, instead) = draw.randrange(len(LINES)), draw.choice(FAULTS)
        line = LINES[place]
        if faults := list(re.finditer(pattern, line)):
            at = draw.choice(faults)
            line = line[: at.start()] + at.expand(instead) + line[at.end() :]
            if find(line):
                made.append((place, line))
    return made


@pytest.mark.parametrize("separator", ["\n", "  "], ids=["file", "line"])
def test_both_of_two_mistakes_are_found(separator):
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


GRID = "={1,2,3,4,5,6,7,8,9,10}"
HOSTILE = {
    "deep parentheses": "share = " + "(" * 100_000, "deep calls": "share = " + "f(" * 100_000,
    "deep lists": "heads = " + "[" * 100_000 + "]" * 100_000, "deep blocks": "a { " * 50_000,
    "closers, then openers": ")" * 5_000 + "[" * 3_000, "a huge number": "layers = 1e300",
    "a number of 5,000 digits": "layers = " + "9" * 5_000, "infinity": "holdout = 1e999",
    "two megabytes": "x" * (2 << 20), "a name of a megabyte": "x" * ((1 << 20) - 2),
    "a string of a megabyte": f'data = "{"x" * ((1 << 20) - 20)}"',
    "settings without end": "layers=12 " * 6_600, "commas without end": "," * 19_000,
    "settings unknown without end": " ".join(f"x{n}=1" for n in range(6_600)),
    "stages without end": " ".join(f'stage "s{n}" {{ seq=128 }}' for n in range(2_800)),
    "a list without commas": "heads=[" + "1 " * 9_000 + "]",
    "a wrong list": "heads=[" + "0," * 9_500 + "]", "an empty list": "heads = []  ffn = []",
    "a wrong sum": "objective=" + "+".join(["mlx"] * 9_500),
    "a ratio without end": "objective=mlm(replace=" + "/".join(["1"] * 9_000) + ")",
    "a grid that explodes": " ".join(name + GRID for name in "LHAFEVSB"),
    "strays": "$" * 1_000_000, "strays apart": "$ " * 500_000, "zeros": "\0" * 1_000_000,
    "quotes that escape": '"\\' * 500_000, "open quotes": '" ' * 500_000,
    "open calls without end": "a=f(b c=1 " * 2_000, "brackets mixed": "a=([)] " * 2_800,
    "bases without end": "extends bert-base " * 9_000,
}  # fmt: skip


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile(title):
    diagnostics = Diagnostics()
    programs = lang.load("\n" + HOSTILE[title], (), diagnostics)
    assert 1 <= len(diagnostics.found) < 200
    assert len(programs) <= 1
    for program in programs:
        passes.complete(program, diagnostics)
    assert max(map(len, render(diagnostics.found).splitlines())) < 500


NAMES = ("../x", "a/b", "a\\\\b", ".", "\\u{1b}[1m", "\\u{202e}", "x" * 41)
"""Names as written in a spec that no stage and no language has."""


def named(name: str) -> Iterator[str]:
    """Specs in which a stage, or a language wherever there is one, has a name."""
    yield f'stage "{name}" {{ }}'
    yield f'languages=["{name}"]'
    for setting in Settings.model_fields:
        for kind, node in kinds_in(setting_shape(setting)).items():
            if "language" in arguments(node):
                given = [f'{argument}="x"' for argument in required(node)]
                call = call_text(kind, *given, f"language='{name}'")
                yield f"{setting}={call}"


@pytest.mark.parametrize("name", NAMES)
def test_names_that_users_choose_are_no_paths_and_can_be_printed(name):
    for spec in named(name):
        diagnostics = Diagnostics()
        lang.load(spec, (), diagnostics)
        assert [each.code for each in diagnostics.found] in (["E109"], ["E111"]), spec
    for spec in named("Old English"):
        lang.load(spec)


def test_what_is_shown_cannot_steer_a_terminal_and_colour_differs_in_colour_alone():
    diagnostics = Diagnostics()
    lang.load('\u202elayers\x1b[31m = "\x07\u2066" hiden\x00 = 1', (), diagnostics)
    shown = render(diagnostics.found)
    assert not set(shown) & set("\u202e\u2066\x1b\x07\x00")
    assert "\\u202elayers\\x1b[31m" in shown
    diagnostics = Diagnostics()
    lang.load("hiden = 1\nhidden = 2 H = 3", (), diagnostics)
    colored = render(diagnostics.found, color=True)
    assert "\x1b[1;31m" in colored
    for style in ("1;31", "34", "1;36", "1;32", "0"):
        colored = colored.replace(f"\x1b[{style}m", "")
    assert colored == render(diagnostics.found)


SIGNS = "====()()[]{},+*/#\n\n\"'\\:;\t\x00\x1b\u202e\ufeff\u00e9\U0001f600"
WORDS = "layers hidden heads ffn share objective vocab optimizer data format stage extends E H A V "
WORDS += "mlm sop nsp sbo span ngram groups map none all attention wordpiece lamb adamw files "
WORDS += "docstrings true false 12 768 15% 30k 8Ki -1 1e-4 1e999 0 80/10/10 hiden lambb"
PIECES = (*WORDS.split(), *SIGNS)


def texts(count: int, draw: random.Random) -> Iterator[str]:
    """Random words, and specs of which some bytes are replaced, doubled or cut."""
    sound = [path.read_bytes() for path in shipped_specs().values()]
    sound += [text.encode() for page in codes().values() for text in (page.bad, page.good)]
    for _ in range(count // 2):
        yield draw.choice([" ", ""]).join(draw.choices(PIECES, k=draw.randint(1, 60)))
        data = bytearray(draw.choice(sound))
        for _ in range(draw.randint(1, 6)):
            first, again = (draw.randrange(len(data) + 1) for _ in range(2))
            piece = draw.choice([b"", draw.choice(PIECES).encode(), data[again : again + 12]])
            data[first : first + draw.randint(0, 12)] = piece
        yield data.decode("utf-8", "replace")


def test_random_and_mutated_texts():
    wrong = 0
    for text in texts(300, random.Random(7)):
        diagnostics = Diagnostics()
        with suppress(MissingInputError):
            for program in lang.load(f"# fuzz\n{text}", (), diagnostics)[:3]:
                passes.complete(program, diagnostics)
        assert not any(ord(c) < 32 and c != "\n" for c in render(diagnostics.found))
        wrong += bool(diagnostics.found)
    assert wrong > 200
