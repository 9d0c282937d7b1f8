"""Groups of runs: rows of ``bertc runs --results`` and their scores over seeds. Loads no torch.

Runs that differ in nothing but the seed and in when they log, evaluate and save share a row, and
so do those of different tasks with seeds in common: a model's line in a table of tasks.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev

from bertc import Resolved
from bertc.lab.results.runs import Run
from bertc.lab_api import schema, settings_texts

Score = tuple[str, ...]
ASIDE = ("seed", "log_every", "eval_every", "save_every", "keep")
"""Run settings that may differ within a row."""
GLUE: Mapping[str, tuple[str, ...]] = {
    "cola": ("mcc",), "sst2": ("accuracy",), "mrpc": ("accuracy", "f1"),
    "stsb": ("pearson", "spearman"), "qqp": ("accuracy", "f1"), "mnli": ("accuracy",),
    "qnli": ("accuracy",), "rte": ("accuracy",), "wnli": ("accuracy",),
}  # fmt: skip
"""The metrics that GLUE's leaderboard ranks by; AX is shown there and does not count."""


@dataclass(frozen=True)
class Summary:
    """One score over the runs of a row that have it: mean, standard deviation (n - 1) and best."""

    mean: float
    deviation: float
    best: float
    runs: int

    @staticmethod
    def of(values: Sequence[float], more_is_better: bool = True) -> "Summary":
        """The summary of one value or more."""
        deviation = stdev(values) if len(values) > 1 else 0.0
        best = max(values) if more_is_better else min(values)
        return Summary(fmean(values), deviation, best, len(values))


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
    def place(self) -> str:
        """The folder that holds all its runs, or its one run's folder."""
        folders = [run.folder for run in self.runs]
        if any(folder.is_absolute() for folder in folders):
            folders = [folder.absolute() for folder in folders]
        return os.path.commonpath(folders) or "."

    @cached_property
    def last(self) -> dict[Score, Summary]:
        """The scores of the last evaluations."""
        return _summaries([run.last_scores for run in self.runs])

    @cached_property
    def best(self) -> dict[Score, tuple[Summary, tuple[int, ...]]]:
        """The scores of the best evaluations, and their steps, if better than the last ones."""
        better: dict[Score, tuple[Summary, tuple[int, ...]]] = {}
        for score in self.last:
            pairs = [
                (run.last, run.best)
                for run in self.runs
                if run.last and run.best and score in run.last.values
            ]
            if any(best.rank > last.rank for last, best in pairs):
                shown = [best for _, best in pairs]
                steps = tuple(sorted({best.step for best in shown}))
                better[score] = _summaries([best.values for best in shown])[score], steps
        return better

    @property
    def glue(self) -> float | None:
        """The GLUE average, if there are all tasks but perhaps WNLI."""
        average = glue_average({score: summary.mean for score, summary in self.last.items()})
        there = {score[0] for score in self.last}
        return average if {*GLUE} - {"wnli"} <= there else None


def glue_average(scores: Mapping[Score, float]) -> float:
    """GLUE's average: the mean over tasks of the mean over a task's metrics, and MNLI's parts.

    With ``wnli`` it is the leaderboard's figure of nine tasks, without it that of the eight which
    most papers have (BERT's Table 1 counts both parts of MNLI, and one metric of each).
    """
    means = list[float]()
    for task, metrics in GLUE.items():
        values = [v for score, v in scores.items() if score[0] == task and score[-1] in metrics]
        if values:
            means.append(fmean(values))
    return fmean(means) if means else 0.0


def _summaries(seen: Sequence[Mapping[Score, float]]) -> dict[Score, Summary]:
    scores = dict.fromkeys(score for entry in seen for score in entry)
    return {s: Summary.of([e[s] for e in seen if s in e], len(s) == 3) for s in scores}


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """The rows of a table, in the order of their first runs."""
    cells = _cells([run.resolved.with_free() for run in runs])
    differ = [name for name in cells if len(set(cells[name])) > 1]
    if {"layers", "share"} <= {*differ}:
        pairs = {*zip(cells["share"], cells["layers"], strict=True)}
        if len(pairs) == len({*cells["layers"]}):  # the depth says what is shared
            differ.remove("share")
    chosen = [n for n in differ if any(_is_chosen(n, run.resolved) for run in runs)]
    names = chosen if _tells_apart(chosen, cells, runs) else differ
    distinct = _tells_apart(names, cells, runs)
    rows, repeats = dict[tuple[str, ...], list[int]](), Counter[tuple[str, ...]]()
    for index, run in enumerate(runs):
        alone = () if run.finished else (str(run.folder),)
        but_for_the_seed = () if distinct else (_but_for_the_seed(run.resolved),)
        key = (*(cells[name][index] for name in names), *alone, *but_for_the_seed)
        repeated = (*key, str(run.resolved.run.seed), *_titles(run.resolved))
        rows.setdefault((*key, str(repeats[repeated])), []).append(index)
        repeats[repeated] += 1  # a run that was repeated says nothing of other seeds
    return [
        Group({n: cells[n][row[0]] for n in names}, tuple(runs[index] for index in row))
        for together in rows.values()
        for row in _in_line(together, runs)
    ]


def _in_line(indices: list[int], runs: Sequence[Run]) -> list[list[int]]:
    """Runs that share a row: those of different tasks only if their seeds are the same."""
    tasks: dict[tuple[str, ...], list[int]] = {}
    for index in indices:
        tasks.setdefault(_titles(runs[index].resolved), []).append(index)
    seeds = [{runs[i].resolved.run.seed for i in same_tasks} for same_tasks in tasks.values()]
    most = max(seeds, key=len)
    return [indices] if all(entry <= most for entry in seeds) else list(tasks.values())


def _is_chosen(name: str, program: Resolved) -> bool:
    """True unless the value is derived; settings of single stages have no origin noted.

    Steps may follow from epochs, which a program no longer has.
    """
    return "." in name or name == "steps" or not program.origins.get(name, "").startswith("derived")


def _tells_apart(
    names: Sequence[str], cells: Mapping[str, Sequence[str]], runs: Sequence[Run]
) -> bool:
    """True if these settings distinguish all runs of one task that differ in more than the seed."""
    programs: dict[tuple[str, ...], set[str]] = {}
    for index, run in enumerate(runs):
        key = (*(cells[name][index] for name in names), "", *_titles(run.resolved))
        programs.setdefault(key, set()).add(_but_for_the_seed(run.resolved))
    return all(len(entry) == 1 for entry in programs.values())


def _titles(program: Resolved) -> tuple[str, ...]:
    return tuple(task.title for task in program.stages[-1].tasks)


def _but_for_the_seed(program: Resolved) -> str:
    """The fingerprint of what a run computes, but for its seed and its recipe."""
    program = program.with_free()
    run = program.run.without_recipe.model_copy(update=dict.fromkeys(ASIDE, 0))
    return program.model_copy(update={"run": run}).fingerprint()


def _cells(programs: Sequence[Resolved]) -> dict[str, list[str]]:
    """The text of every compared setting in each program, stage by stage if stages differ."""
    of_programs = [settings_texts(program) for program in programs]
    names = dict.fromkeys(name.rpartition(".")[2] for texts in of_programs for name in texts)
    plain = _alike_tasks(programs, of_programs)
    cells = dict[str, list[str]]()
    for name in names:
        if not schema()[name].in_stages:
            # A body has settings that another lacks.
            cells |= {} if name in ASIDE else {name: [texts.get(name, "") for texts in of_programs]}
            continue
        by_stage = [
            {
                stage.name: _setting_text(program, number, name, texts, plain)
                for number, stage in enumerate(program.stages)
            }
            for program, texts in zip(programs, of_programs, strict=True)
        ]
        cells |= _by_stage(name, by_stage)
    return cells


def _by_stage(name: str, texts: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Columns of a setting, by the texts of each program's stages: one if no program's differ."""
    if all(len(set(of_stages.values())) == 1 for of_stages in texts):
        return {name: [next(iter(of_stages.values())) for of_stages in texts]}
    stages = dict.fromkeys(stage for of_stages in texts for stage in of_stages)
    return {f"{stage}.{name}": [by_stage.get(stage, "") for by_stage in texts] for stage in stages}


def _of_stage(program: Resolved, number: int, name: str, texts: Mapping[str, str]) -> str:
    """The text of a stage's setting among those of its program."""
    return texts.get(f"{program.stages[number].name}.{name}") or texts.get(name, "")


def _alike_tasks(
    programs: Sequence[Resolved], of_programs: Sequence[Mapping[str, str]]
) -> set[tuple[str, ...]]:
    """The titles of last tasks of which no two runs have other arguments, such as ``head``."""
    objectives: dict[tuple[str, ...], set[str]] = {}
    for program, texts in zip(programs, of_programs, strict=True):
        objective = _of_stage(program, -1, "objective", texts)
        objectives.setdefault(_titles(program), set()).add(objective)
    return {titles for titles, written in objectives.items() if len(written) == 1}


def _setting_text(
    program: Resolved, number: int, name: str, texts: Mapping[str, str], plain: set[tuple[str, ...]]
) -> str:
    """The text of a stage's setting; "" for the objective of one task, which the scores name.

    ``plain`` are the tasks that are the same in all runs. A stage of tasks reads no text: no data.
    """
    stage = program.stages[number]
    titles = tuple(task.title for task in stage.tasks)
    if name == "data" and titles:
        return ""
    if name == "objective" and stage is program.stages[-1] and titles and titles in plain:
        return " + ".join(titles) if len(titles) > 1 else ""
    text = _of_stage(program, number, name, texts)
    if name == "optimizer" and not re.search(r"\blr=", text):  # another run may have another rate
        kind, _, arguments = text.partition("(")
        rate = f"lr={stage.optimizer.lr:g}".replace("e-0", "e-")
        return f"{kind}({rate}, {arguments}" if arguments else f"{kind}({rate})"
    return text


STUDENT = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157,
    2.228139, 2.200985, 2.178813, 2.160369, 2.144787,
)  # fmt: skip
"""Quantiles 0.975 of Student's distribution for 1, 2, ... degrees of freedom."""
NORMAL = 1.959964
"""The same quantile of the normal distribution."""
SPREAD = "mean over seeds ± half its 95% interval (Student's)"
"""The meaning of ± in every table, in words."""


def interval(summary: Summary) -> float:
    """Half the 95% interval of a mean over seeds; 0 for one run."""
    if summary.runs < 2:
        return 0.0
    return _quantile(summary.runs - 1) * summary.deviation / math.sqrt(summary.runs)


def mean_text(summary: Summary) -> str:
    """A mean, with half its 95% interval where there are several runs."""
    if summary.runs == 1:
        return f"{summary.mean:.4f}"
    return f"{summary.mean:.4f} ± {interval(summary):.4f}"


def interval_of_difference(first: Summary, second: Summary) -> float:
    """Half the 95% interval of the difference of two means (Welch 1947); infinite of one run."""
    if min(first.runs, second.runs) < 2:
        return math.inf
    variances = [summary.deviation**2 / summary.runs for summary in (first, second)]
    total = sum(variances)
    if total == 0:
        return 0.0
    parts = (v**2 / (sample.runs - 1) for v, sample in zip(variances, (first, second), strict=True))
    return _quantile(total**2 / sum(parts)) * math.sqrt(total)


def _quantile(freedom: float) -> float:
    """The quantile at whole degrees of freedom, at most these, so that intervals are no shorter."""
    degrees = max(1, int(freedom + 1e-9))
    if degrees <= len(STUDENT):
        return STUDENT[degrees - 1]
    # Abramowitz & Stegun 26.7.5, whose two terms are within .001 here.
    return NORMAL + (NORMAL**3 + NORMAL) / (4 * degrees) + 2.8225 / degrees**2
