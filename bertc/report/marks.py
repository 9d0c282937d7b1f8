"""Vertical lines in curves: where stages begin, and where a run was taken up again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bertc.report.markup import in_picture
from bertc.runs.curves import Curves, MetricsPoint


@dataclass(frozen=True)
class Mark:
    """A vertical line: the beginning of a stage, or a time that the run was taken up again."""

    text: str
    dash: str
    step: float
    tokens: float
    seconds: float
    flops: float

    def line(self) -> dict[str, Any]:
        """A shape of plotly."""
        return {
            "type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": self.step, "x1": self.step,
            "line": {"width": 1, "dash": self.dash},
        }  # fmt: skip

    def label(self) -> dict[str, Any]:
        """Its text, as an annotation of plotly."""
        return {
            "x": self.step, "yref": "paper", "y": 1, "yanchor": "bottom", "text": self.text,
            "showarrow": False,
        }  # fmt: skip


def marks(curves: Curves) -> Iterator[Mark]:
    """The marks of a run, stages before resumptions."""
    stages = list(dict.fromkeys(point.stage for point in curves.points))
    before: MetricsPoint | None = None
    if len(stages) > 1:
        for stage in stages:
            yield _mark(in_picture(stage), "dash", before)
            before = [point for point in curves.points if point.stage == stage][-1]
    for attempt in curves.attempts[1:]:
        past = [point for point in curves.points if point.step <= attempt.step]
        yield _mark("resumed", "dot", past[-1] if past else None, attempt.step)


def _mark(text: str, dash: str, at: MetricsPoint | None, step: float | None = None) -> Mark:
    """A mark at a point; its own step may be a little later."""
    if at is None:
        return Mark(text, dash, step or 0, 0, 0, 0)
    return Mark(text, dash, step or at.step, at.tokens, at.seconds, at.flops)
