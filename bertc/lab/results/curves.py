"""The figures of a run along its way, by step, tokens, seconds or FLOPs. Loads no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bertc import Resolved
from bertc.lab.results.figures import LineFigures, figures
from bertc.lab_api import RunFolder, step_flops


@dataclass
class MetricsPoint(LineFigures):
    """A line of metrics with the FLOPs of training until then, exact and with those of updates."""

    flops: float


@dataclass(frozen=True)
class Curves:
    """All lines of metrics of a run."""

    points: tuple[MetricsPoint, ...]

    @cached_property
    def names(self) -> list[str]:
        """The names of all figures, training's before those of evaluations, each in order."""
        ordered = sorted(self.points, key=lambda point: point.kind == "eval")
        # Most points have the same names.
        alike = dict.fromkeys(tuple(point.values) for point in ordered)
        return list(dict.fromkeys(name for names in alike for name in names))

    def of(self, name: str) -> list[MetricsPoint]:
        """The points that have a figure."""
        return [point for point in self.points if name in point.values]


def curves(folder: Path) -> Curves:
    """Read the curves of a run, empty before its first line of metrics."""
    run = RunFolder(folder)
    lines = [line for line in run.read_metrics() if "best" not in line]  # again, of an end
    tokens = {line["step"]: line["tokens"] for line in lines if "tokens" in line}
    flops = FlopsUntil(run.read_resolved(), tokens)
    points = (MetricsPoint(**vars(point), flops=flops.at(point.step)) for point in figures(lines))
    return Curves(tuple(points))


class FlopsUntil:
    """FLOPs that a run has taken until a step.

    Rows of a task are as long on average as those that were read; others are full, as in estimates.
    """

    def __init__(self, resolved: Resolved, tokens: Mapping[int, int]) -> None:
        """``tokens`` are those that the run has read until some of its steps."""
        self._stages = [
            (stage.first_step, stage.steps, flops)
            for stage, flops in zip(resolved.stages, step_flops(resolved, tokens), strict=True)
        ]

    def at(self, step: int) -> float:
        """Return those of the steps before this one."""
        total = 0.0
        for first, steps, of_a_step in self._stages:
            if step > first:
                total += min(step - first, steps) * of_a_step
        return total
