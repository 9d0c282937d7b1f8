"""Spans of words with names: those apart from each other, as tags, and beside right ones.

Axes: w words, n names, l widths in words.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.tasks.layouts.example import Examples
from bertc.tasks.metrics.calibration import HeadFit, best_threshold
from bertc.tasks.metrics.metrics import spans

LEAST_LIKELY = 0.05
"""The least probability of a span for which a threshold is sought."""


class NamedSpan(NamedTuple):
    """A span of words by its first and last, counted from 0, and how likely it is."""

    name: str
    first: int
    last: int
    likely: float


def spans_apart(likely_wnl: NDArray[np.float64], names: Sequence[str]) -> list[NamedSpan]:
    """Spans that do not overlap, the likeliest first (gliner decoder.py, greedy_search).

    Those above any threshold are the first of them.
    """
    places, chosen = np.argwhere(likely_wnl > LEAST_LIKELY), list[NamedSpan]()
    likely, taken = likely_wnl[tuple(places.T)], np.zeros(sum(likely_wnl.shape), np.bool_)
    for at in np.argsort(-likely, kind="stable").tolist():
        first, name, width = places[at].tolist()
        if not taken[first : first + width + 1].any():
            taken[first : first + width + 1] = True
            chosen.append(NamedSpan(names[name], first, first + width, float(likely[at])))
    return chosen


def named_tags(
    examples: Examples, named: Sequence[Sequence[NamedSpan]], fit: HeadFit
) -> Iterator[tuple[str, ...]]:
    """Tags of words by the spans above the threshold, 0.5 if none is fitted."""
    (least,) = fit.thresholds or (0.5,)
    for example, answered in zip(examples, named, strict=True):
        tags = ["O"] * len(getattr(example, "words", ()))
        for name, first, last, likely in answered:
            if likely > least:
                tags[first : last + 1] = [f"B-{name}", *[f"I-{name}"] * (last - first)]
        yield tuple(tags)


def named_threshold(examples: Examples, named: Sequence[Sequence[NamedSpan]]) -> float:
    """The threshold of the best F1 of spans."""
    likely, right, missing = list[float](), list[float](), 0
    for example, answered in zip(examples, named, strict=True):
        known = spans(getattr(example, "tags", ()))
        missing += len(known - {span[:3] for span in answered})
        likely += [span.likely for span in answered]
        right += [float(span[:3] in known) for span in answered]
    return best_threshold(np.array(likely), np.array(right), missing)
