"""Results of a table: scores by row and seed, costs, and which claims hold."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from bertc.lab.reproduce.job import EVALUATION, SAME, Job
from bertc.lab.reproduce.programs import Jobs
from bertc.lab.reproduce.table import FIGURES, Claim, Measure, Row, Table
from bertc.lab.results.curves import flops_until
from bertc.lab.results.figures import LineFigures, figures
from bertc.lab.results.groups import Summary, interval_of_difference
from bertc.lab.results.runs import read_run
from bertc.lab.search.goal import Goal
from bertc.lab_api import RunFolder, several

ByMeasure = Mapping[str, Mapping[int, float]]
"""Scores by measure and seed."""
MASKED = "_masked"
"""Ending of figures of masked positions."""
_SHOWN: Mapping[str, Callable[[float], float]] = {
    "as it is": lambda value: value,
    "percent": lambda value: 100 * value,
    "perplexity": lambda value: math.exp(min(value, 700.0)),
    "bits": lambda value: value / math.log(2),
}


@dataclass(frozen=True)
class RowResult:
    """Scores of a row by measure and seed, its parameters and the FLOPs of its pretraining.

    ``same`` are seeds by measure of runs that gave every example the same answer.
    """

    name: str
    scores: ByMeasure
    parameters: float | None
    flops: float | None
    seconds: float
    same: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def summary(self, measure: str) -> Summary | None:
        """Mean and deviation over seeds; None if it was not measured."""
        values = [*self.scores.get(measure, {}).values()]
        return Summary.of(values) if values else None

    def figure(self, name: str) -> float | None:
        """The mean of a measure, or a figure of the estimate."""
        if name in FIGURES:
            return self.parameters if name == "parameters" else self.flops
        summary = self.summary(name)
        return summary.mean if summary else None


@dataclass(frozen=True)
class TableResults:
    """A table at a scale as far as it was trained.

    ``runs`` are those before rows, of rows and of measures with these ``seeds``, ``missing`` the
    unfinished ones, ``before`` the seconds of those before rows. ``machine`` is that of the first
    run. ``masked`` are measures of masked positions; other scores of masked tokens are of all
    predicted ones. ``arrangement`` are settings that the scale gave to all rows.
    """

    table: str
    scale: str
    rows: tuple[RowResult, ...]
    runs: int
    missing: int
    seeds: tuple[int, ...] = ()
    before: float = 0.0
    machine: str = ""
    masked: tuple[str, ...] = ()
    arrangement: str = ""

    def row(self, name: str) -> RowResult:
        """The result of a row, empty if there is none."""
        empty = RowResult(name, {}, None, None, 0.0)
        return next((row for row in self.rows if row.name == name), empty)

    def pairs(self, table: Table, claim: Claim) -> list[dict[str, Any]]:
        """The neighbours of a claimed order, with both differences and the verdict.

        A difference above 0 is the way that the paper claims; ``half`` is half its 95% interval,
        and a claim is undecided if that has 0 in it.
        """
        better = {measure.name: measure.better for measure in table.measures}
        sign = 1 if better.get(claim.measure) == "more" else -1
        pairs = list[dict[str, Any]]()
        for names in zip(claim.order, claim.order[1:], strict=False):
            rows = [self.row(name) for name in names]
            difference = _difference(sign, *(row.figure(claim.measure) for row in rows))
            first, other = (row.summary(claim.measure) for row in rows)
            half = interval_of_difference(first, other) if first and other else 0.0
            verdict = "undecided"
            if difference is None:
                verdict = "not measured"
            elif abs(difference) > half:
                verdict = "holds" if difference > 0 else "reversed"
            printed = (table.row(name).published.get(claim.measure) for name in names)
            pairs.append({
                "says": claim.says, "measure": claim.measure, "better": names[0], "worse": names[1],
                "difference": difference,
                "half": None if difference is None or math.isinf(half) else half,
                "verdict": verdict, "published": _difference(sign, *printed),
            })  # fmt: skip
        return pairs


@dataclass(frozen=True)
class _Outcome:
    """The last figures of a run by name, its seconds, and whether it gave one answer to all.

    ``lines`` are those of its metrics, ``flops`` the FLOPs until a step.
    """

    values: Mapping[str, float]
    seconds: float
    same: bool
    lines: Sequence[LineFigures] = ()
    flops: Callable[[int], float] = float

    def scored(self, measure: Measure, figure: str) -> float | None:
        """The last value of a measure's figure, or the cost until it was reached."""
        if measure.until is None:
            return _SHOWN[measure.shown](self.values[figure])
        sign = 1 if measure.better == "more" else -1
        for line in self.lines:
            if figure in line.values and sign * (line.values[figure] - measure.until) >= 0:
                seconds = measure.cost == "seconds"
                return line.seconds if seconds else self.flops(line.step) / 1e12
        return None


def results_of(jobs: Jobs, seeds: Sequence[int], left_out: Collection[str] = ()) -> TableResults:
    """The results of a table in its folder, as far as its runs are finished."""
    table = jobs.table
    every = [job for job in jobs.all(seeds) if job.name not in left_out]
    finished = [(job, _outcome(job)) for job in every if job.is_finished]
    figures = dict[str, str]()
    for measure in table.measures:
        of = [done.values for job, done in finished if job.row and measure in _measure(table, job)]
        figures[measure.name] = _figure(measure, of)
    rows = (
        _row(table, row, [pair for pair in finished if pair[0].row == row.name], figures)
        for row in table.rows
    )
    before = sum(done.seconds for job, done in finished if not job.row)
    masked = (name for name, figure in figures.items() if figure.endswith(MASKED))
    return TableResults(
        table.name, jobs.name, tuple(rows), len(every), len(every) - len(finished), (*seeds,),
        round(before, 1), _machine(jobs.out), tuple(masked), jobs.scale.arrangement,
    )  # fmt: skip


def _row(
    table: Table, row: Row, finished: Sequence[tuple[Job, _Outcome]], figures: Mapping[str, str]
) -> RowResult:
    """The result of a row by its finished runs; ``figures`` are those of measures."""
    scores: dict[str, dict[int, float]] = {measure.name: {} for measure in table.measures}
    one_answer = dict[str, list[int]]()
    for job, outcome in finished:
        for measure in _measure(table, job):
            value = outcome.scored(measure, figures[measure.name])
            if value is not None:
                scores[measure.name][job.seed] = value
            if job.measure and outcome.same:
                one_answer.setdefault(measure.name, []).append(job.seed)
    sizes: tuple[float | None, float | None] = None, None
    trained = (job for job, _ in finished if job.eval is None)
    if main := next((job for job in trained if not (table.pretrains and job.measure)), None):
        run = read_run(main.folder)
        sizes = run.parameters, run.flops
    measured = {name: by_seed for name, by_seed in with_means(table, scores).items() if by_seed}
    seconds = round(sum(outcome.seconds for _, outcome in finished), 1)
    return RowResult(row.name, measured, *sizes, seconds, one_answer)


def with_means(table: Table, scores: ByMeasure) -> dict[str, Mapping[int, float]]:
    """The scores by measure and seed, with the means of those seeds that all parts have."""
    every = dict(scores)
    for measure in table.measures:
        if measure.mean:
            parts = [every[name] for name in measure.mean]
            seeds = sorted(set.intersection(*map(set, parts)))
            every[measure.name] = {seed: fmean(values[seed] for values in parts) for seed in seeds}
    return every


def _measure(table: Table, job: Job) -> list[Measure]:
    """The measures that a job's run is scored by."""
    if job.measure:
        return [m for m in table.measures if job.measure in (m.name, "" if m.eval else m.of)]
    return [m for m in table.measures if m.score and not (m.spec or m.eval or m.of)]


def _outcome(job: Job) -> _Outcome:
    if job.eval is not None:
        values = json.loads((job.folder / EVALUATION).read_text(encoding="utf-8"))
        return _Outcome(values, 0.0, SAME in values)
    folder, seen = RunFolder(job.folder), dict[str, float]()
    lines = folder.read_metrics()
    points = [*figures(lines)]
    for point in points:
        seen |= point.values
    seconds = max((point.seconds for point in points), default=0.0)
    evaluated = [line for line in lines if line["kind"] == "eval"]
    alike = bool(evaluated and evaluated[-1].get("always"))
    flops = flops_until(folder.read_resolved(), {point.step: point.tokens for point in points})
    return _Outcome(seen, seconds, alike, points, flops)


def _figure(measure: Measure, runs: Sequence[Mapping[str, float]]) -> str:
    """The figure that runs are scored by: of masked positions if all runs have it."""
    names = [name for name in runs[0] if all(name in run for run in runs)] if runs else []
    figure = Goal(measure.score, measure.better == "more").figure(names)
    return figure + MASKED if figure + MASKED in names else figure


def _machine(folder: Path) -> str:
    """Processor, cores and version of torch of the first run of a folder."""
    paths = sorted(folder.glob("*/*/*/lock.json"))
    lock = RunFolder(paths[0].parent).read_lock() if paths else None
    if lock is None:
        return ""
    processor = lock.machine.get("name", lock.machine["device"])
    cores = lock.machine.get("cores", 0)
    return f"{processor}, {several(cores, 'core')}, torch {lock.versions['torch']}"


def _difference(sign: int, first: float | None, other: float | None) -> float | None:
    return None if first is None or other is None else sign * (first - other) + 0.0  # no -0
