"""Settings of rows at a smaller scale."""

import re
from collections.abc import Iterator, Mapping

from bertc.lab.reproduce.table import Scale

_WIDTH = 8
"""Shrunk widths are multiples of it."""
SHRUNK: Mapping[str, str] = {
    "hidden": "widths", "embedding": "widths", "ffn": "widths", "layers": "layers",
    "seq": "seq", "memory": "seq", "batch": "batch", "steps": "steps",
}  # fmt: skip
"""Settings of rows that a scale multiplies, and by which of its factors."""
_SHORT = {"H": "hidden", "E": "embedding", "F": "ffn", "L": "layers", "S": "seq", "B": "batch"}
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20}
_NUMBER = re.compile(r"(?<!\S)(\w+)=([\d.]+(?:e\d+)?)(k|G|[KM]i|M|)(?!\S)")
_INSIDE = re.compile(r"\"[^\"]*\"|'[^']*'|\([^()]*\)|\[[^][]*\]|\{[^{}]*\}")
"""Quotes, and the innermost brackets."""
Factors = Mapping[str, float]


def factors(scale: Scale, base: Mapping[str, float]) -> Factors:
    """The factors of a scale: its own, else those between its settings and the rows' common ones.

    ``base`` are these, at full size: hidden, layers, seq, batch, steps; empty if there are none.
    Where they are smaller than the scale's, nothing is enlarged.
    """
    written = {name: value for name, value, _ in _numbers(scale.spec) if name in base}
    derived = {SHRUNK[name]: min(1.0, value / base[name]) for name, value in written.items()}
    of_scale = {name: getattr(scale, name) for name in dict.fromkeys(SHRUNK.values())}
    return {name: value or derived.get(name, 1.0) for name, value in of_scale.items()}


def steps_of(text: str) -> float | None:
    """The number of steps that settings say, None if they say none."""
    return next((value for name, value, _ in _numbers(text) if name == "steps"), None)


def shrunk(text: str, by: Factors) -> str:
    """The settings of a row with its numbers multiplied by factors.

    Widths become multiples of 8, the rest whole numbers, at least 1.
    """
    for name, value, where in reversed([*_numbers(text)]):
        if name in SHRUNK and value and by[SHRUNK[name]] != 1:
            unit = _WIDTH if SHRUNK[name] == "widths" else 1
            new = unit * max(1, round(value * by[SHRUNK[name]] / unit))
            text = f"{text[: where.start(2)]}{new}{text[where.end() :]}"
    return text


def sets(text: str, *names: str) -> bool:
    """True if a text has one of these settings."""
    return any(re.search(rf"(?<!\S){name}\s*=", _outside(text)) for name in names)


def _numbers(text: str) -> Iterator[tuple[str, float, re.Match[str]]]:
    """The settings of a text that are plain numbers, by their full names, and where they are."""
    for match in _NUMBER.finditer(_outside(text)):
        name, number, unit = match.groups()
        yield _SHORT.get(name, name), float(number) * _UNITS[unit], match


def _outside(text: str) -> str:
    """A text of the same length with blanks in place of quotes and brackets."""
    count = 1
    while count:
        text, count = _INSIDE.subn(lambda inside: "_" * len(inside[0]), text)
    return text
