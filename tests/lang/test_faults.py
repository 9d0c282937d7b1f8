"""Two mistakes in one spec are two messages, and hardly more."""

import random
import re
from collections.abc import Callable

import pytest

from bertc import lang
from bertc.base.diagnostics import Diagnostics

LINES = (
    "layers = 12",
    "hidden = 768",
    "share = groups(4)",
    "vocab = wordpiece(30k, lower=true)",
    "objective = mlm(p=15%, unit=ngram(max=3), replace=80/10/10) + 2*sop",
    'data = 0.7*files("corpus/*.txt", column="text") + docstrings',
    "optimizer = lamb(lr=1.76e-3, warmup=3125, betas=[0.9, 0.999])",
    "steps = 125k",
    "batch = 4096",
    "activation = gelu-tanh",
)

Fault = Callable[[str, random.Random], str | None]


def _without(sign: str) -> Fault:
    def fault(line: str, draw: random.Random) -> str | None:
        places = [match.start() for match in re.finditer(re.escape(sign), line)]
        if not places:
            return None
        place = draw.choice(places)
        return line[:place] + line[place + 1 :]

    return fault


def _stray(line: str, draw: random.Random) -> str:
    place = draw.choice([match.start() for match in re.finditer(" |$", line)])
    return line[:place] + draw.choice("$;?!@~") + line[place:]


def _typo(line: str, draw: random.Random) -> str:
    word = draw.choice(
        [m for m in re.finditer(r"\b[a-z]{4,}\b", line) if m.group() not in "column"]
    )
    place = word.start() + 1
    return line[:place] + line[place + 1] + line[place] + line[place + 2 :]


def _out_of_range(line: str, draw: random.Random) -> str | None:
    numbers = list(re.finditer(r"(?<==)\d+|(?<== )\d+", line))
    if not numbers:
        return None
    number = draw.choice(numbers)
    return line[: number.start()] + "-7" + line[number.end() :]


FAULTS: dict[str, Fault] = {
    "no equals": _without("="),
    "no comma": _without(","),
    "no closer": _without(")"),
    "no bracket": _without("]"),
    "no quote": _without('"'),
    "comma after": lambda line, draw: line + ",",
    "bracket after": lambda line, draw: line + ")",
    "stray": _stray,
    "typo": _typo,
    "range": _out_of_range,
    "unit": lambda line, draw: line.replace("k", "kb") if "k" in line else None,
    "no value": lambda line, draw: line.split("=")[0] + "=",
}


def find(text: str) -> list[tuple[str, int]]:
    diagnostics = Diagnostics()
    lang.load(text, (), diagnostics)
    return [(d.code, d.span.start if d.span else -1) for d in diagnostics.found]


def draws(count: int, seed: int) -> list[tuple[int, str, str]]:
    """Line, name of the fault and the faulty line."""
    draw = random.Random(seed)
    made: list[tuple[int, str, str]] = []
    while len(made) < count:
        place, name = draw.randrange(len(LINES)), draw.choice(list(FAULTS))
        faulty = FAULTS[name](LINES[place], draw)
        if faulty is not None and find(faulty):
            made.append((place, name, faulty))
    return made


def reported(separator: str, seed: int) -> tuple[int, int, list[str]]:
    """How many of how many double faults are reported well, and those that are not."""
    made = draws(400, seed)
    good, bad = 0, []
    pairs = [(a, b) for a, b in zip(made[::2], made[1::2], strict=True) if a[0] != b[0]]
    for first, second in pairs:
        lines = list(LINES)
        lines[first[0]], lines[second[0]] = first[2], second[2]
        text = separator.join(lines)
        found = find(text)
        starts = [sum(len(line) + len(separator) for line in lines[:i]) for i in range(len(lines))]

        def within(place: int, starts: list[int] = starts, lines: list[str] = lines) -> range:
            return range(starts[place], starts[place] + len(lines[place]) + 1)

        both = all(any(at in within(p) for _, at in found) for p in (first[0], second[0]))
        if both and len(found) <= 3:
            good += 1
        else:
            bad.append(f"{first[1]} + {second[1]}: {found}\n{text}")
    return good, len(pairs), bad


@pytest.mark.parametrize("separator", ["\n", "  "], ids=["file", "line"])
def test_double_faults(separator: str) -> None:
    good, count, bad = reported(separator, seed=1)
    assert count > 150
    assert good >= 0.94 * count, "\n\n".join(bad)
