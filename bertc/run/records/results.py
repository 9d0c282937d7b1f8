"""Evaluations of a run, in their order. Loads no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bertc.base.diagnostics import DataError
from bertc.ir.program import Resolved, Stage
from bertc.ir.terms.masking import shown_figures
from bertc.run.records.metrics import Line

Score = tuple[str, ...]
"""The name of a column: task, part and metric; or an objective, for its held-out loss.

Of masked language modelling it says of which positions (``ir.terms.masking``).
"""
Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Values by task, part and metric."""


@dataclass(frozen=True)
class Seen:
    """One evaluation of a run; ``rank`` orders evaluations of a stage, more is better.

    Ranks compare where ``of_masked`` is the same: older versions had the loss of all positions.
    """

    step: int
    stage: str
    rank: float
    of_masked: bool
    values: Mapping[Score, float]


def mean_score(stage: Stage, scores: Scores) -> float:
    """The score that ranks evaluations: the mean over tasks of their first metric's over parts."""
    return fmean(
        fmean(metrics_of_part[task.metrics[0]] for metrics_of_part in scores[task.title].values())
        for task in stage.tasks
        if task.title in scores
    )


def values_of(scores: Scores, losses: Mapping[str, float]) -> dict[Score, float]:
    """The scores of tasks, and the losses of other objectives, by the names of columns."""
    values: dict[Score, float] = {
        (task, part, metric): value
        for task, parts in scores.items()
        for part, metrics_of_part in parts.items()
        for metric, value in metrics_of_part.items()
    }
    return values | {(name,): losses[name] for name in shown_figures(losses) if name not in scores}


def read_evaluation(line: Line, resolved: Resolved, place: Path) -> Seen:
    """The evaluation in a line of the metrics at a place."""
    scores: Scores = line.get("scores", {})
    stage = next((stage for stage in resolved.stages if stage.name == line["stage"]), None)
    ranking = [(t, scores[t.title]) for t in stage.tasks if t.title in scores] if stage else []
    judges = ranking and all(
        parts and all(task.metrics[0] in metrics_of_part for metrics_of_part in parts.values())
        for task, parts in ranking
    )
    if stage is None or (scores and not judges):
        raise DataError(
            f"{place} is not of this run: an evaluation at step {line['step']} of stage "
            f"{line['stage'][:60]!r} has other scores than its program",
            help="restore a copy of the run",
        )
    rank = mean_score(stage, scores) if scores else -line.get("loss_masked", line["loss"])
    values, of_masked = values_of(scores, line["losses"]), "loss_masked" in line
    return Seen(line["step"], line["stage"], rank, of_masked, values)
