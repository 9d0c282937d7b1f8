"""What curves are drawn along: steps, tokens, time or FLOPs, in units that fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bertc.report.marks import Mark
from bertc.runs.curves import Curves, MetricsPoint, XAxis

TIMES = (
    ("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0),
    ("milliseconds", 1e-3), ("microseconds", 1e-6),
)  # fmt: skip
SEVERAL = 3
"""Units of the last point from which a longer unit is taken."""


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
    return next(((name, size) for name, size in TIMES if longest >= SEVERAL * size), TIMES[-1])
