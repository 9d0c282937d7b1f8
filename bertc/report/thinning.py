"""Fewer points with the same look, and means over neighbours."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SMOOTHED = 0.02
"""The part of a curve over which a smoothed one is a mean, on average."""
SHOWN_DIGITS = 6


def thinned(x: Sequence[float], y: Sequence[float], most: int) -> NDArray[np.int64]:
    """The indices of at most ``most`` points that keep the look of a curve.

    Of each of as many buckets the point that spans the largest triangle with the one chosen before
    and the mean of the next bucket (Steinarsson 2013, "Largest Triangle Three Buckets").
    """
    count = len(x)
    if count <= max(most, 3):
        return np.arange(count)
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    # Buckets begin at the edges; the last one is the last point.
    edges = np.linspace(1, count - 1, most - 1).astype(int)
    sizes = np.diff(edges, append=count)
    mean_xs, mean_ys = (np.add.reduceat(each, edges) / sizes for each in (xs, ys))
    chosen = [0]
    for at in range(most - 2):
        here, last = slice(edges[at], edges[at + 1]), chosen[-1]
        areas = np.abs(
            (xs[last] - mean_xs[at + 1]) * (ys[here] - ys[last])
            - (xs[last] - xs[here]) * (mean_ys[at + 1] - ys[last])
        )
        chosen.append(int(edges[at] + areas.argmax()))
    return np.array([*chosen, count - 1])


def smoothed(y: Sequence[float]) -> list[float]:
    """An exponential mean of each value and those before it, without the pull of the first ones."""
    keep = 1 - 1 / max(1.0, SMOOTHED * len(y))
    found, mean, weight = [], 0.0, 0.0
    for value in y:
        mean, weight = keep * mean + (1 - keep) * value, keep * weight + (1 - keep)
        found.append(mean / weight)
    return found


def rounded(values: Sequence[float]) -> list[float | None]:
    """Values with as many digits as a picture shows: whole ones are integers."""
    return [value if isinstance(value, int) else _rounded(value) for value in values]


def _rounded(value: float) -> float:
    short = float(f"{value:.{SHOWN_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
