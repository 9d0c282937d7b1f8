"""Runs found in folders, and what their evaluations showed. Loads no torch."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import fmean

from bertc.base.diagnostics import DataError, MissingInputError, listed
from bertc.base.storage.paths import check_path, is_file, is_folder, is_taken, real_path
from bertc.hub.folders import read_network
from bertc.ir.learning.objective import titled
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.ir.terms.masking import shown_figures
from bertc.run.records import metrics
from bertc.run.records.folder import RunFolder

Score = tuple[str, ...]
"""The name of a column: task, part and metric; or an objective, for its held-out loss.

Of masked language modelling it says of which positions (``ir.terms.positions``).
"""
Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Values by task, part and metric."""


@dataclass(frozen=True)
class Seen:
    """One evaluation of a run; ``rank`` orders evaluations, more is better."""

    step: int
    rank: float
    values: Mapping[Score, float]


@dataclass(frozen=True)
class Run:
    """A run folder and its evaluations.

    ``last`` is its last evaluation, ``best`` the best of the same stage, and ``earlier`` are the
    last of the stages before.
    """

    folder: Path
    resolved: Resolved
    step: int
    finished: bool
    last: Seen | None
    best: Seen | None
    earlier: tuple[Seen, ...] = ()
    tokens: Mapping[int, int] = field(default_factory=dict)
    """Tokens that it has read until some of its steps."""
    seconds: float = 0.0
    """The time of its training and evaluations."""
    parameters_left: int | None = None
    """The number of parameters after pruning, of a run that removed some and has ended."""

    @property
    def parameters(self) -> int:
        """The number of parameters, after pruning if it has ended."""
        return self.parameters_left or sum(w.numel for w in model_weights(self.resolved))

    @property
    def last_scores(self) -> dict[Score, float]:
        """The last value of each score."""
        seen = [*self.earlier, *filter(None, [self.last])]
        return {score: value for evaluation in seen for score, value in evaluation.values.items()}

    @property
    def steps(self) -> int:
        """All its steps; by the clock as many as its pace gives."""
        return self.resolved.steps_by(self.step, self.seconds)

    @property
    def standing(self) -> str:
        """The step that an unfinished run is at, "1,000/2,000"; "" for a finished one."""
        return "" if self.finished else f"{self.step:,}/{self.steps:,}"

    @property
    def score(self) -> tuple[str, float] | None:
        """The score of the weights that it has now, after its name; None if it has no such."""
        step = RunFolder(self.folder).saved_step or self.resolved.steps
        return self.ranked(self.last) if self.last and self.last.step == step else None

    def evaluated(self, step: int, values: Mapping[Score, float]) -> "Run":
        """The run with one evaluation in place of its own."""
        last = Seen(step, 0.0, values)
        return replace(self, step=step, last=last, best=None, earlier=())

    def ranked(self, seen: Seen) -> tuple[str, float]:
        """The score or loss that ranks an evaluation of the last stage, after its name."""
        scored = {score[0] for score in seen.values}
        tasks = [task for task in self.resolved.stages[-1].tasks if task.title in scored]
        if not tasks or len(next(iter(seen.values))) == 1:
            of = dict.fromkeys(titled(name).partition(", ")[2] for (name,) in seen.values)
            return ", ".join(filter(None, ("held-out loss", *of))), -seen.rank
        return " + ".join(f"{task.title} {task.metrics[0]}" for task in tasks), seen.rank


def mean_score(stage: Stage, scores: Scores) -> float:
    """The score that ranks evaluations: the mean over tasks of their first metric's over parts."""
    return fmean(
        fmean(metrics_of_part[task.metrics[0]] for metrics_of_part in scores[task.title].values())
        for task in stage.tasks
        if task.title in scores
    )


def find_folders(folders: Sequence[Path]) -> list[Path]:
    """Every run folder among these folders and below them.

    Raises:
        MissingInputError: if a folder does not exist, or there is no run in any.
    """
    for folder in folders:
        if not is_folder(folder):
            raise MissingInputError(f"there is no folder {folder}", help=check_path(folder))
    paths = dict[Path, Path]()
    for name, below, files in chain.from_iterable(os.walk(folder) for folder in folders):
        below.sort()
        if "resolved.json" in files:
            below.clear()
            if "lock.json" in files:  # an imported model has none
                paths[real_path(Path(name))] = Path(name)
    if not paths:
        models = [folder for folder in folders if is_file(folder / "config.json")]
        way = f"bertc import {models[0]} --out DIR" if models else "bertc train SPEC --out DIR"
        raise MissingInputError(f"no run in {listed(map(str, folders))}", help=f"{way} makes one")
    return list(paths.values())


def read_run(path: Path) -> Run:
    """Read a run and its evaluations.

    Raises:
        MissingInputError: if there is none.
        DataError: if its files are damaged, or an evaluation is not of its program.
    """
    folder = RunFolder(path)
    resolved, lines = folder.read_resolved(), folder.read_metrics()
    seen = [line for line in lines if line["kind"] == "eval"]
    # Losses of masked positions do not compare with those of all, which older versions wrote.
    alike = [line for line in seen if ("loss_masked" in line) == ("loss_masked" in seen[-1])]
    of_stage = [line for line in alike if line["stage"] == seen[-1]["stage"]]
    of_last_stage = [_seen(line, resolved, folder.metrics) for line in of_stage]
    ends = {line["stage"]: line for line in seen}
    left = is_taken(folder.pruned) and model_weights(read_network(path))
    return Run(
        path,
        resolved,
        max([folder.saved_step, *(line["step"] for line in lines)]),
        folder.is_finished(resolved),
        of_last_stage[-1] if of_last_stage else None,
        max(of_last_stage, key=lambda evaluation: evaluation.rank, default=None),
        tuple(_seen(line, resolved, folder.metrics) for line in list(ends.values())[:-1]),
        {line["step"]: line["tokens"] for line in lines if "tokens" in line},
        next((line["seconds"] for line in reversed(lines) if "seconds" in line), 0.0),
        sum(weight.numel for weight in left) if left else None,
    )


def values_of(scores: Scores, losses: Mapping[str, float]) -> dict[Score, float]:
    """The scores of tasks, and the losses of other objectives, by the names of columns."""
    values: dict[Score, float] = {
        (task, part, metric): value
        for task, parts in scores.items()
        for part, metrics_of_part in parts.items()
        for metric, value in metrics_of_part.items()
    }
    shown = {(name,): losses[name] for name in shown_figures(losses) if name not in scores}
    return values | shown


def _seen(line: metrics.Line, resolved: Resolved, place: Path) -> Seen:
    """The evaluation in a line, with its order among those of its stage, more is better."""
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
    return Seen(line["step"], rank, values_of(scores, line["losses"]))
