"""Axes that curves are drawn along, in units that fit, and marks across them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bertc.report.markup import in_picture
from bertc.runs.curves import Curves, MetricsPoint, XAxis

TIME_UNITS = (
    ("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0),
    ("milliseconds", 1e-3), ("microseconds", 1e-6),
)  # fmt: skip
SEVERAL = 3
"""Units of the last point from which a longer unit is taken."""


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


@dataclass(frozen=True)
class Axis:
    """An axis: its title, the field of points that it shows, and the size of its unit."""

    title: str
    field: XAxis
    unit: float = 1.0

    def place(self, point: MetricsPoint | Mark) -> float:
        """The place of a point along it."""
        place: float = getattr(point, self.field)
        return place if self.unit == 1 else place / self.unit


def axes(every: Sequence[Curves]) -> list[Axis]:
    """The axes along which there is something; steps first."""
    last = [curves.points[-1] for curves in every]
    time, unit = run_time_unit(point.seconds for point in last)
    others = Axis("tokens", "tokens"), Axis(time, "seconds", unit), Axis("FLOPs", "flops")
    there = [axis for axis in others if any(axis.place(point) for point in last)]
    return [Axis("steps", "step"), *there]


def run_time_unit(seconds: Iterable[float]) -> tuple[str, float]:
    """The unit for times of runs, seconds at least."""
    return time_unit(max(SEVERAL, *seconds, 0.0))


def time_unit(longest: float) -> tuple[str, float]:
    """The unit for times up to ``longest`` seconds, and its seconds."""
    return next(
        ((name, size) for name, size in TIME_UNITS if longest >= SEVERAL * size), TIME_UNITS[-1]
    )
