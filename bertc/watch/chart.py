"""Curves in a terminal, of Braille characters: a grid of 2 x 4 dots each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character by row and column of the dot (Unicode, block 2800)."""
EMPTY = 0x2800


@dataclass(frozen=True)
class DrawnCurve:
    """A curve: its points in the order of x, joined by lines or not, and its style in rich."""

    xs: Sequence[float]
    ys: Sequence[float]
    style: str
    joined: bool = True


def chart(curves: Sequence[DrawnCurve], width: int, height: int) -> list[Text]:
    """Draw curves over each other in ``height`` lines of ``width`` characters, labels included.

    The lines above and below have the range of y, left of the curves; [] without a point.
    """
    curves = [curve for curve in curves if curve.xs]
    if not curves:
        return []
    low, high = _range([y for curve in curves for y in curve.ys])
    start, end = _range([x for curve in curves for x in curve.xs])
    labels = [f"{high:.4g}", *[""] * (height - 2), f"{low:.4g}"]
    gap = max(map(len, labels)) + 1
    columns = max(1, width - gap)
    grid = _Grid(columns, height)
    for curve in curves:
        grid.draw(
            [(x - start) / (end - start) for x in curve.xs],
            [(y - low) / (high - low) for y in curve.ys],
            curve,
        )
    return [
        Text.assemble((label.rjust(gap - 1) + " ", "dim"), line)
        for label, line in zip(labels, grid.lines(), strict=True)
    ]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The least and the largest value, apart from each other."""
    low, high = min(values), max(values)
    # A difference that floats cannot tell from none would draw noise, or divide by zero.
    room = max(abs(low), abs(high), 1e-9) * 1e-6
    return (low, high) if high - low > room else (low - room, high + room)


class _Grid:
    """Dots of a picture, with the style that each character was last given."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._bits = [[0] * columns for _ in range(rows)]
        self._styles = [[""] * columns for _ in range(rows)]

    def draw(self, xs: Sequence[float], ys: Sequence[float], curve: DrawnCurve) -> None:
        """Draw a curve whose coordinates are from 0 to 1."""
        wide, high = self.columns * 2 - 1, self.rows * 4 - 1
        dots = [(round(x * wide), round((1 - y) * high)) for x, y in zip(xs, ys, strict=True)]
        before = dots[0]
        for dot in dots:
            if curve.joined:
                self._line(before, dot, curve.style)
            self._dot(*dot, curve.style)
            before = dot

    def _line(self, begin: tuple[int, int], end: tuple[int, int], style: str) -> None:
        steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]))
        for step in range(1, steps):
            part = step / steps
            x = math.floor(begin[0] + part * (end[0] - begin[0]) + 0.5)
            y = math.floor(begin[1] + part * (end[1] - begin[1]) + 0.5)
            self._dot(x, y, style)

    def _dot(self, x: int, y: int, style: str) -> None:
        self._bits[y // 4][x // 2] |= DOTS[y % 4][x % 2]
        self._styles[y // 4][x // 2] = style

    def lines(self) -> list[Text]:
        """The picture, a line a row of characters."""
        return [
            Text.assemble(
                *(
                    (chr(EMPTY + bits) if bits else " ", style)
                    for bits, style in zip(*row, strict=True)
                )
            )
            for row in zip(self._bits, self._styles, strict=True)
        ]
