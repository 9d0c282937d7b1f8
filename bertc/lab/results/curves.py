"""The figures of a run along its way, by step, tokens, seconds or FLOPs. Loads no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from bertc import Resolved
from bertc.lab.results.figures import LineFigures, figures
from bertc.lab_api import RunFolder, step_flops

XAxis = Literal["step", "tokens", "seconds", "flops"]


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

    def of(self, name: str, axis: XAxis) -> tuple[list[float], list[float]]:
        """The curve of a figure: where along ``axis``, and its values."""
        there = [point for point in self.points if name in point.values]
        return [float(getattr(point, axis)) for point in there], [p.values[name] for p in there]


def curves(folder: Path) -> Curves:
    """Read the curves of a run, empty before its first line of metrics."""
    run = RunFolder(folder)
    lines = [line for line in run.read_metrics() if "best" not in line]  # again, of an end
    tokens = {line["step"]: line["tokens"] for line in lines if "tokens" in line}
    flops = flops_until(run.read_resolved(), tokens)
    points = (MetricsPoint(**vars(point), flops=flops(point.step)) for point in figures(lines))
    return Curves(tuple(points))


def flops_until(resolved: Resolved, tokens: Mapping[int, int]) -> Callable[[int], float]:
    """A function: the FLOPs of the steps before one; ``tokens`` are those read until some.

    Rows of a task are as long on average as those that were read; others are full, as in estimates.
    """
    stages = [*zip(resolved.stages, step_flops(resolved, tokens), strict=True)]

    def until(step: int) -> float:
        done = [min(max(0, step - stage.first_step), stage.steps) for stage, _ in stages]
        return float(sum(steps * flops for steps, (_, flops) in zip(done, stages, strict=True)))

    return until
