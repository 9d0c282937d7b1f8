"""``bertc results``: results of runs, side by side. Loads no torch.

Runs that differ in nothing but the seed and in when they log, evaluate and save share a row, and
so do those of different tasks with seeds in common: a model's line in a table of tasks.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev

from bertc.diagnostics import DataError, MissingInputError
from bertc.ir.program.resolved import Resolved, Stage
from bertc.ir.program.settings import STAGE_SETTINGS, Settings
from bertc.runs import metrics
from bertc.runs.changes import ABOUT_MEMORY, AS_STEPS, of_the_run, origin, written
from bertc.runs.folder import RunFolder, identity
from bertc.storage.paths import is_folder, real_path

Score = tuple[str, ...]
"""The name of a column: task, part and metric; or an objective, for its held-out loss."""
Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Values by task, part and metric."""
UNTOLD = (*ABOUT_MEMORY, AS_STEPS, "grow")
"""Stage settings that never become table columns, being redundant with others."""
ASIDE = ("seed", "log_every", "eval_every", "save_every", "keep")
"""Run settings that may differ within a row."""


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

    @property
    def came_to(self) -> dict[Score, float]:
        """The last value of each score."""
        seen = [*self.earlier, *filter(None, [self.last])]
        return {score: value for each in seen for score, value in each.values.items()}

    @property
    def standing(self) -> str:
        """The step that an unfinished run is at, "1,000/2,000"; "" for a finished one."""
        return "" if self.finished else f"{self.step:,}/{self.resolved.steps:,}"


@dataclass(frozen=True)
class Summary:
    """One score over the runs of a row that have it: mean, standard deviation (n - 1) and best."""

    mean: float
    deviation: float
    best: float
    runs: int


@dataclass(frozen=True)
class Group:
    """The runs of a row, and the settings that distinguish them from other rows."""

    settings: Mapping[str, str]
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> list[int]:
        """The distinct seeds of the runs, sorted."""
        return sorted({run.resolved.run.seed for run in self.runs})

    @property
    def has_twins(self) -> bool:
        """True if several of its runs of the same tasks have the same seed."""
        keys = {(r.resolved.run.seed, *_titles(r.resolved)) for r in self.runs}
        return len(keys) < len(self.runs)

    @property
    def place(self) -> str:
        """The folder that holds all its runs, or its one run's folder."""
        folders = [run.folder for run in self.runs]
        if any(folder.is_absolute() for folder in folders):
            folders = [folder.absolute() for folder in folders]
        return os.path.commonpath(folders) or "."

    @property
    def standing(self) -> str:
        """The step that an unfinished run is at; such a run has a row to itself."""
        return self.runs[0].standing

    @cached_property
    def last(self) -> dict[Score, Summary]:
        """The scores of the last evaluations."""
        return _summaries([run.came_to for run in self.runs])

    @cached_property
    def best(self) -> dict[Score, tuple[Summary, tuple[int, ...]]]:
        """The scores of the best evaluations, and their steps, if better than the last ones."""
        found: dict[Score, tuple[Summary, tuple[int, ...]]] = {}
        for score in self.last:
            pairs = [
                (run.last, run.best)
                for run in self.runs
                if run.last and run.best and score in run.last.values
            ]
            if any(best.rank > last.rank for last, best in pairs):
                shown = [best for _, best in pairs]
                steps = tuple(sorted({best.step for best in shown}))
                found[score] = _summaries([best.values for best in shown])[score], steps
        return found

    @property
    def glue(self) -> float | None:
        """The GLUE average, if there are all tasks but perhaps WNLI."""
        from bertc.tasks.submit import GLUE_METRICS, glue_average

        scores: dict[str, dict[str, float]] = {}
        for score, summary in self.last.items():
            if len(score) == 3:
                task, part, metric = score
                name = f"{task}-mm" if "mismatched" in part else task
                scores.setdefault(name, {})[metric] = summary.mean
        return glue_average(scores) if {*GLUE_METRICS} - {"wnli"} <= {*scores} else None


def mean_score(stage: Stage, scores: Scores) -> float:
    """The score that ranks evaluations: the mean over tasks of their first metric's over parts."""
    return fmean(
        fmean(found[task.metrics[0]] for found in scores[task.title].values())
        for task in stage.tasks
        if task.title in scores
    )


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """Every run in these folders and below them.

    Raises:
        MissingInputError: if a folder does not exist, or there is no run in any.
        DataError: if the files of a run are damaged.
    """
    for folder in folders:
        if not is_folder(folder):
            raise MissingInputError(f"there is no folder {folder}", help="check the path")
    paths = {real_path(path): path for folder in folders for path in _run_folders(folder)}
    if not paths:
        raise MissingInputError(
            f"no run in {', '.join(map(str, folders))}", help="bertc train SPEC --out DIR makes one"
        )
    return [_read(path) for path in paths.values()]


def _run_folders(folder: Path) -> Iterator[Path]:
    for name, below, files in os.walk(folder):
        below.sort()
        if "resolved.json" in files:
            below.clear()
            if "lock.json" in files:  # an imported model has none
                yield Path(name)


def _read(path: Path) -> Run:
    folder = RunFolder(path)
    resolved = folder.read_resolved()
    lines = metrics.read(folder.metrics)
    seen = [line for line in lines if line["kind"] == "eval"]
    told = [
        _seen(line, resolved, folder.metrics) for line in seen if line["stage"] == seen[-1]["stage"]
    ]
    ends = {line["stage"]: line for line in seen}
    return Run(
        path,
        resolved,
        max([folder.saved_step, *(line["step"] for line in lines)]),
        folder.is_finished(resolved),
        told[-1] if told else None,
        max(told, key=lambda each: each.rank) if told else None,
        tuple(_seen(line, resolved, folder.metrics) for line in list(ends.values())[:-1]),
    )


def _seen(line: metrics.Line, resolved: Resolved, place: Path) -> Seen:
    """The evaluation in a line: scores of tasks, and losses of other objectives."""
    scores: Scores = line.get("scores", {})
    values: dict[Score, float] = {
        (task, part, metric): value
        for task, parts in scores.items()
        for part, found in parts.items()
        for metric, value in found.items()
    }
    values |= {(name,): loss for name, loss in line["losses"].items() if name not in scores}
    stage = next((stage for stage in resolved.stages if stage.name == line["stage"]), None)
    if stage is None or not _judges(stage, scores):
        raise DataError(
            f"{place} is not of this run: an evaluation at step {line['step']} of stage "
            f"{line['stage'][:60]!r} has other scores than its program",
            help="restore a copy of the run",
        )
    return Seen(line["step"], mean_score(stage, scores) if scores else -line["loss"], values)


def _judges(stage: Stage, scores: Scores) -> bool:
    """True if scores are empty, or have all that ranks the tasks of the stage."""
    known = [task for task in stage.tasks if task.title in scores]
    return (
        not scores
        or bool(known)
        and all(
            parts and all(task.metrics[0] in found for found in parts.values())
            for task in known
            for parts in [scores[task.title]]
        )
    )


def _summaries(seen: Sequence[Mapping[Score, float]]) -> dict[Score, Summary]:
    scores = dict.fromkeys(score for each in seen for score in each)
    return {s: _summary(s, [each[s] for each in seen if s in each]) for s in scores}


def _summary(score: Score, values: list[float]) -> Summary:
    deviation = stdev(values) if len(values) > 1 else 0.0
    best = max(values) if len(score) == 3 else min(values)
    return Summary(fmean(values), deviation, best, len(values))


def grouped(runs: Sequence[Run]) -> list[Group]:
    """The rows of a table, in the order of their first runs."""
    cells = _cells([run.resolved for run in runs])
    differ = [name for name in cells if len(set(cells[name])) > 1]
    if "layers" in differ and _follows("share", "layers", cells):
        differ.remove("share")
    chosen = [n for n in differ if any(_is_chosen(n, run.resolved) for run in runs)]
    names = chosen if _tells_apart(chosen, cells, runs) else differ
    whole = _tells_apart(names, cells, runs)
    rows: dict[tuple[str, ...], list[int]] = {}
    for index, run in enumerate(runs):
        alone = () if run.finished else (str(run.folder),)
        other = () if whole else (_but_for_the_seed(run.resolved),)
        key = (*(cells[name][index] for name in names), *alone, *other)
        rows.setdefault(key, []).append(index)
    return [
        Group({n: cells[n][own[0]] for n in names}, tuple(runs[index] for index in own))
        for together in rows.values()
        for own in _in_line(together, runs)
    ]


def _in_line(indices: list[int], runs: Sequence[Run]) -> list[list[int]]:
    """Runs that share a row: those of different tasks only if their seeds are the same."""
    tasks: dict[tuple[str, ...], list[int]] = {}
    for index in indices:
        tasks.setdefault(_titles(runs[index].resolved), []).append(index)
    seeds = [{runs[index].resolved.run.seed for index in own} for own in tasks.values()]
    most = max(seeds, key=len)
    return [indices] if all(each <= most for each in seeds) else list(tasks.values())


def _follows(name: str, other: str, cells: Mapping[str, Sequence[str]]) -> bool:
    """True if one setting's value determines another one's in all runs."""
    return len({*zip(cells[name], cells[other], strict=True)}) == len({*cells[other]})


def _is_chosen(name: str, program: Resolved) -> bool:
    """True unless the value is derived; settings of single stages have no origin noted."""
    return "." in name or origin(name, program) != "derived"


def _tells_apart(
    names: Sequence[str], cells: Mapping[str, Sequence[str]], runs: Sequence[Run]
) -> bool:
    """True if these settings distinguish all runs of one task that differ in more than the seed."""
    found: dict[tuple[str, ...], set[str]] = {}
    for index, run in enumerate(runs):
        key = (*(cells[name][index] for name in names), "", *_titles(run.resolved))
        found.setdefault(key, set()).add(_but_for_the_seed(run.resolved))
    return all(len(each) == 1 for each in found.values())


def _titles(program: Resolved) -> tuple[str, ...]:
    return tuple(task.title for task in program.stages[-1].tasks)


def _but_for_the_seed(program: Resolved) -> str:
    run = program.run.model_copy(update=dict.fromkeys(ASIDE, 0))
    return identity(program.model_copy(update={"run": run}))


def _cells(programs: Sequence[Resolved]) -> dict[str, list[str]]:
    """The text of every compared setting in each program, stage by stage if stages differ."""
    of_runs = [of_the_run(program) for program in programs]
    names = [name for name in Settings.model_fields if name in of_runs[0] and name not in ASIDE]
    cells = {name: [written(name, each[name]) for each in of_runs] for name in names}
    for name in STAGE_SETTINGS:
        if name in UNTOLD:
            continue
        told = [
            {each.name: _told(name, each, each is program.stages[-1]) for each in program.stages}
            for program in programs
        ]
        if all(len(set(each.values())) == 1 for each in told):
            cells[name] = [next(iter(each.values())) for each in told]
            continue
        for stage in dict.fromkeys(stage for each in told for stage in each):
            cells[f"{stage}.{name}"] = [each.get(stage, "") for each in told]
    return cells


def _told(name: str, stage: Stage, last: bool) -> str:
    """The text of a stage's setting; "" for the objective of one task, which the scores name."""
    if name == "objective" and last and stage.tasks:
        return " + ".join(task.title for task in stage.tasks) if len(stage.tasks) > 1 else ""
    return written(name, getattr(stage, name))
