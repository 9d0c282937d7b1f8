"""Results of a table: scores by row and seed, costs, and which claims hold."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from bertc.diagnostics import DataError, several
from bertc.ir.program.model import model_weights
from bertc.ir.terms.positions import shown_figure
from bertc.runs.curves import FlopsUntil, curves
from bertc.runs.folder import RunFolder
from bertc.runs.groups import Summary, summary_of
from bertc.runs.intervals import interval_of_difference
from bertc.runs.metrics import read, tokens_read
from bertc.search.goal import Goal
from bertc.storage.json_file import read_json
from bertc.tables.job import EVALUATION, SAME, Job, is_finished
from bertc.tables.programs import Jobs
from bertc.tables.table import Claim, Measure, Table

_LARGEST_BYTES = 2**24
ClaimVerdict = Literal["holds", "reversed", "undecided", "not measured"]
"""Undecided: the 95% interval of the difference of both means has 0 in it."""


@dataclass(frozen=True)
class RowResult:
    """Scores of a row by measure and seed, its parameters and the FLOPs of its pretraining."""

    name: str
    scores: Mapping[str, Mapping[int, float]]
    parameters: float | None
    flops: float | None
    seconds: float
    same: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Seeds by measure of runs that gave every example the same answer."""

    def summary(self, measure: str) -> Summary | None:
        """Mean and deviation over seeds; None if it was not measured."""
        values = [*self.scores.get(measure, {}).values()]
        return summary_of(values) if values else None

    def figure(self, name: str) -> float | None:
        """The mean of a measure, or a figure of the estimate."""
        if name in ("parameters", "flops"):
            return float(value) if (value := getattr(self, name)) is not None else None
        summary = self.summary(name)
        return summary.mean if summary else None


@dataclass(frozen=True)
class ClaimedPair:
    """Two neighbours of a claimed order: our difference, half its 95% interval, and the verdict.

    A difference above 0 is the way that the paper claims. ``published`` is the paper's own.
    """

    better: str
    worse: str
    difference: float | None
    half: float | None
    verdict: ClaimVerdict
    published: float | None


@dataclass(frozen=True)
class TableResults:
    """A table at a scale as far as it was trained.

    ``runs`` are those before rows, of rows and of measures, ``missing`` the unfinished ones; runs
    that are not of the table as it is now are left out.
    """

    table: str
    scale: str
    rows: tuple[RowResult, ...]
    runs: int
    missing: int
    seeds: tuple[int, ...] = ()
    """Seeds of the runs that are counted."""
    before: float = 0.0
    """Seconds of the runs before rows."""
    machine: str = ""
    """Processor, cores and version of torch of its first run."""
    masked: tuple[str, ...] = ()
    """Measures of masked positions; other scores of masked tokens are of all predicted ones."""
    arrangement: str = ""
    """Settings that the scale gave to all rows."""

    def row(self, name: str) -> RowResult:
        """The result of a row, empty if there is none."""
        empty = RowResult(name, {}, None, None, 0.0)
        return next((row for row in self.rows if row.name == name), empty)

    def as_json(self) -> str:
        """The results as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1)

    @staticmethod
    def read(path: Path) -> "TableResults":
        """Read results that ``as_json`` wrote.

        Raises:
            MissingInputError: if there are none.
            DataError: if the file is damaged.
        """
        try:
            return _RESULTS.validate_python(read_json(path, _LARGEST_BYTES))
        except ValidationError:
            raise DataError(
                f"{path} has no results of a table", help="bertc reproduce TABLE --show --json"
            ) from None

    def pairs(self, table: Table, claim: Claim) -> list[ClaimedPair]:
        """The neighbours of a claimed order."""
        return [
            self._pair(table, claim.measure, *pair)
            for pair in zip(claim.order, claim.order[1:], strict=False)
        ]

    def _pair(self, table: Table, measure: str, better: str, worse: str) -> ClaimedPair:
        sign = _sign(table, measure)
        printed = [table.row(name).published.get(measure) for name in (better, worse)]
        published = _difference(printed[0], printed[1], sign)
        rows = self.row(better), self.row(worse)
        difference = _difference(rows[0].figure(measure), rows[1].figure(measure), sign)
        if difference is None:
            return ClaimedPair(better, worse, None, None, "not measured", published)
        one, other = (row.summary(measure) for row in rows)
        half = interval_of_difference(one, other) if one and other else 0.0
        verdict: ClaimVerdict = "undecided"
        if abs(difference) > half:
            verdict = "holds" if difference > 0 else "reversed"
        return ClaimedPair(
            better, worse, difference, None if math.isinf(half) else half, verdict, published
        )


_RESULTS = TypeAdapter(TableResults)


def results_of(jobs: Jobs, seeds: Sequence[int], left_out: Collection[str] = ()) -> TableResults:
    """The results of a table in its folder, as far as its runs are finished.

    ``left_out`` are names of runs that are not of the table as it is now.
    """
    table, rows = jobs.table, []
    every = [job for job in jobs.all(seeds) if job.name not in left_out]
    finished = {job.name for job in every if is_finished(job, jobs.out)}
    scored = [job for job in every if job.row and job.name in finished]
    known = {job.name: _values(job, jobs.out) for job in scored}
    figures = {
        each.name: _figure(each, [known[j.name] for j in scored if each in measures_of(table, j)])
        for each in table.measures
    }
    for row in table.rows:
        scores: dict[str, dict[int, float]] = {each.name: {} for each in table.measures}
        seconds, parameters, flops = 0.0, None, None
        same = dict[str, list[int]]()
        for seed in seeds:
            for job in jobs.of(row, seed):
                if job.name not in finished:
                    continue
                if not job.eval:
                    seconds += _seconds(jobs.out / job.name)
                for measure in measures_of(table, job):
                    value = known[job.name][figures[measure.name]]
                    scores[measure.name][seed] = _shown_as(measure, value)
                    if job.measure and _all_the_same(job, jobs.out):
                        same.setdefault(measure.name, []).append(seed)
            (main, *_) = jobs.of(row, seed)
            there = main.name not in left_out and RunFolder(jobs.out / main.name).holds_a_run
            if parameters is None and there:
                parameters, flops = _size_and_flops(jobs.out / main.name)
        _add_means(table, scores)
        found = {name: values for name, values in scores.items() if values}
        rows.append(RowResult(row.name, found, parameters, flops, round(seconds, 1), same))
    before = [job.name for job in every if not job.row and job.name in finished]
    seconds = round(sum(_seconds(jobs.out / name) for name in before), 1)
    missing, machine = len(every) - len(finished), _machine(jobs.out)
    masked = tuple(name for name, figure in figures.items() if figure.endswith("_masked"))
    return TableResults(
        table.name, jobs.name, tuple(rows), len(every), missing, (*seeds,), seconds, machine,
        masked, jobs.scale.arrangement,
    )  # fmt: skip


def measures_of(table: Table, job: Job) -> list[Measure]:
    """The measures that a job's run is scored by."""
    if job.measure:
        return [each for each in table.measures if each.name == job.measure]
    return [each for each in table.measures if each.score and not (each.spec or each.eval)]


def _values(job: Job, out: Path) -> Mapping[str, float]:
    """The last figures of a run by name."""
    if job.eval is not None:
        found: Mapping[str, float] = read_json(out / job.name / EVALUATION, _LARGEST_BYTES)
        return found
    seen = curves(out / job.name)
    return {name: seen.of(name, "step")[1][-1] for name in seen.names}


def _figure(measure: Measure, runs: Sequence[Mapping[str, float]]) -> str:
    """The figure that runs are scored by: of masked positions if none is of an older version."""
    names = [name for name in runs[0] if all(name in run for run in runs)] if runs else []
    return shown_figure(Goal(measure.score, measure.better == "more").figure(names), names)


def _shown_as(measure: Measure, value: float) -> float:
    match measure.shown:
        case "percent":
            return 100 * value
        case "perplexity":
            return math.exp(min(value, 700.0))
        case "bits":
            return value / math.log(2)
        case _:
            return value


def _all_the_same(job: Job, out: Path) -> bool:
    """True if the last evaluation of a task gave every example of a part the same answer."""
    if job.eval is not None:
        return SAME in read_json(out / job.name / EVALUATION, _LARGEST_BYTES)
    lines = [each for each in read(RunFolder(out / job.name).metrics) if each["kind"] == "eval"]
    return bool(lines and lines[-1].get("always"))


def _machine(folder: Path) -> str:
    """Processor, cores and version of torch of the first run of a folder."""
    paths = sorted(folder.glob("*/*/*/lock.json"))
    lock = RunFolder(paths[0].parent).read_lock() if paths else None
    if lock is None:
        return ""
    cores = several(lock.machine.get("cores", 0), "core")
    processor = lock.machine.get("name", lock.machine["device"])
    return f"{processor}, {cores}, torch {lock.versions['torch']}"


def _add_means(table: Table, scores: dict[str, dict[int, float]]) -> None:
    """Means over measures, of seeds that have all of them."""
    for measure in table.measures:
        if measure.mean:
            of = [scores[name] for name in measure.mean]
            seeds = set.intersection(*(set(values) for values in of))
            scores[measure.name] = {s: fmean(values[s] for values in of) for s in sorted(seeds)}


def _size_and_flops(folder: Path) -> tuple[float, float]:
    """Parameters of a run's network with its heads, and FLOPs of its training."""
    run = RunFolder(folder)
    resolved, tokens = run.read_resolved(), tokens_read(read(run.metrics))
    flops = FlopsUntil(resolved, tokens).at(resolved.steps)
    return sum(weight.numel for weight in model_weights(resolved)), flops


def _seconds(folder: Path) -> float:
    points = curves(folder).points
    return points[-1].seconds if points else 0.0


def _sign(table: Table, name: str) -> int:
    measure = next((each for each in table.measures if each.name == name), None)
    return 1 if measure is not None and measure.better == "more" else -1


def _difference(one: float | None, other: float | None, sign: int) -> float | None:
    return None if one is None or other is None else sign * (one - other) + 0.0  # no -0
