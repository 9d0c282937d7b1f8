"""The figures of a run along its way, by step, tokens, seconds or FLOPs. Loads no torch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from bertc.estimate.flops import executed_flops
from bertc.ir.program.resolved import Resolved
from bertc.runs import attempts, metrics
from bertc.runs.attempts import Attempt
from bertc.runs.folder import RunFolder

XAxis = Literal["step", "tokens", "seconds", "flops"]
Values = dict[str, float]


@dataclass(frozen=True)
class MetricsPoint:
    """A line of metrics: where the run stood, and its figures by name (see ``values_of``).

    ``seconds`` are of training and evaluations, ``flops`` of training, in the exact convention
    without the update's.
    """

    kind: Literal["train", "eval"]
    stage: str
    step: int
    tokens: int
    seconds: float
    flops: float
    values: Values


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
    return curves_of(run, run.read_resolved(), metrics.read(run.metrics))


def curves_of(run: RunFolder, resolved: Resolved, lines: Iterable[metrics.Line]) -> Curves:
    """The curves of a run by what was read of its folder.

    Raises:
        MissingInputError, DataError: if its attempts cannot be read, or are damaged.
    """
    points = Placing(resolved).points(lines)
    return Curves(tuple(points), tuple(attempts.read(run.attempts)))


def values_of(line: metrics.Line) -> Values:
    """The figures of a line by flat names, as trackers and pictures have them.

    ``train/loss``, ``train/loss/mlm``, ``train/grad_norm``, ``train/lr``; ``eval/loss``,
    ``eval/accuracy/mlm``, ``eval/sst2/dev/accuracy``, ``eval/de/mlm``.
    """
    kind = line["kind"]
    values: Values = {f"{kind}/loss": line["loss"]}
    if "grad_norm" in line:
        values[f"{kind}/grad_norm"] = line["grad_norm"]
    if "lr" in line:
        values[f"{kind}/lr"] = line["lr"]
    for name, value in line["losses"].items():
        values[f"{kind}/loss/{name}"] = value
    for name, value in line.get("accuracy", {}).items():
        values[f"{kind}/accuracy/{name}"] = value
    if "unigram_loss" in line:
        values[f"{kind}/unigram_loss"] = line["unigram_loss"]
    for language, figures in line.get("languages", {}).items():
        values |= {f"{kind}/{language}/{name}": value for name, value in figures.items()}
    for task, parts in line.get("scores", {}).items():
        for part, scores in parts.items():
            values |= {f"{kind}/{task}/{part}/{name}": value for name, value in scores.items()}
    return values


class Placing:
    """Makes points of the lines of a run, given in their order, in one call or in many."""

    def __init__(self, resolved: Resolved) -> None:
        self._before = (0, 0.0)
        self._flops = FlopsUntil(resolved)

    def points(self, lines: Iterable[metrics.Line]) -> Iterator[MetricsPoint]:
        """The points of the next lines."""
        for line in lines:
            before = self._before
            tokens, seconds = line.get("tokens", before[0]), line.get("seconds", before[1])
            values = values_of(line)
            if line["kind"] == "train" and tokens > before[0] and seconds > before[1]:
                speed = (tokens - before[0]) / (seconds - before[1])
                values["train/tokens_per_second"] = speed
            self._before = tokens, seconds
            at = self._flops.at(line["step"])
            yield MetricsPoint(
                line["kind"], line["stage"], line["step"], tokens, seconds, at, values
            )


class FlopsUntil:
    """FLOPs that a run has taken until a step."""

    def __init__(self, resolved: Resolved) -> None:
        self._stages = [
            (stage.first_step, stage.steps, stage.batch * executed_flops(stage, stage.batch).train)
            for stage in resolved.stages
        ]

    def at(self, step: int) -> float:
        """Return those of the steps before this one."""
        total = 0.0
        for first, steps, of_a_step in self._stages:
            if step > first:
                total += min(step - first, steps) * of_a_step
        return total
