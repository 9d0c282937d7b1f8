"""The figures of a run along its way, by step, tokens, seconds or FLOPs. Loads no torch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from bertc import Resolved, RunFolder
from bertc.cost.flops import executed_flops
from bertc.ir.program.stage import Stage, TaskStage
from bertc.run.records import attempts, metrics
from bertc.run.records.attempts import Attempt
from bertc.run.records.figures import LineFigures, LineReader

XAxis = Literal["step", "tokens", "seconds", "flops"]


@dataclass
class MetricsPoint(LineFigures):
    """A line of metrics with the FLOPs until then, of training in the exact convention.

    They are without those of the update.
    """

    flops: float


@dataclass(frozen=True)
class Curves:
    """All lines of metrics of a run, and each time that it was taken up."""

    points: tuple[MetricsPoint, ...]
    attempts: tuple[Attempt, ...]

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
    """Read the curves of a run, empty before its first line of metrics.

    Raises:
        MissingInputError, DataError: if its files cannot be read, or are damaged.
    """
    run = RunFolder(folder)
    return curves_of(run, run.read_resolved(), run.read_metrics())


def curves_of(run: RunFolder, resolved: Resolved, lines: Sequence[metrics.Line]) -> Curves:
    """The curves of a run by what was read of its folder.

    Raises:
        MissingInputError, DataError: if its attempts cannot be read, or are damaged.
    """
    flops = FlopsUntil(resolved, metrics.tokens_read(lines))
    points = (
        MetricsPoint(**vars(each), flops=flops.at(each.step))
        for each in LineReader().figures(lines)
    )
    return Curves(tuple(points), tuple(attempts.read(run.attempts)))


class FlopsUntil:
    """FLOPs that a run has taken until a step.

    Rows of a task are as long on average as those that were read; others are full, as in estimates.
    """

    def __init__(self, resolved: Resolved, tokens: Mapping[int, int]) -> None:
        """``tokens`` are those that the run has read until some of its steps."""
        self._stages = [
            (stage.first_step, stage.steps, _step_flops(stage, _row_tokens(stage, tokens)))
            for stage in resolved.stages
        ]

    def at(self, step: int) -> float:
        """Return those of the steps before this one."""
        total = 0.0
        for first, steps, of_a_step in self._stages:
            if step > first:
                total += min(step - first, steps) * of_a_step
        return total


def _row_tokens(stage: Stage, tokens: Mapping[int, int]) -> int:
    """The mean length of a task's rows, with what fills the shorter ones of a batch."""
    reached = [step for step in tokens if 0 < step - stage.first_step <= stage.steps]
    if not isinstance(stage, TaskStage) or not reached:
        return stage.seq
    rows = (max(reached) - stage.first_step) * stage.batch * stage.rows_an_example
    read = tokens[max(reached)] - tokens.get(stage.first_step, 0)
    return max(1, min(stage.seq, math.ceil(read / rows)))


def _step_flops(stage: Stage, row_tokens: int) -> int:
    of_length = stage.model_copy(update={"seq": row_tokens})
    return stage.batch * executed_flops(of_length, stage.batch).train
