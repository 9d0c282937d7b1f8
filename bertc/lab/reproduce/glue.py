"""``bertc glue``: a model on the tasks of GLUE, or BabyLM's, trained as a shipped table."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from string import Template

from bertc import ResumeRefusedError, UsageError, lab_api
from bertc.lab.reproduce.reading import read_table
from bertc.lab.reproduce.reproduce import train_table
from bertc.lab.reproduce.showing import Shown, number_text, score_text
from bertc.lab.reproduce.table import PAPERS, Measure, Table
from bertc.lab_api import RunFolder

TABLES = ("glue", "babylm")
"""Shipped tables of tasks for one model."""
MODEL = "encoder"
"""The need of the table that is the model."""
AVERAGE = "average"
"""Names of averages over tasks begin with it."""


@dataclass(frozen=True)
class GlueScores:
    """The scores of a model, by measure and seed."""

    model: Path
    shown: Shown

    def median(self, measure: Measure) -> float | None:
        """The median over seeds; of an average the mean of medians, as papers have it."""
        if measure.mean:
            by_name = {known.name: known for known in self.shown.table.measures}
            medians = [self.median(by_name[name]) for name in measure.mean]
            there = [value for value in medians if value is not None]
            return fmean(there) if len(there) == len(medians) else None
        values = self.shown.results.rows[0].scores.get(measure.name)
        return median(values.values()) if values else None

    def as_text(self) -> str:
        """A line a score that was measured: mean, median, and the value of each seed."""
        (row,), seeds = self.shown.results.rows, self.shown.results.seeds
        lines = []
        for measure in self.shown.table.measures:
            if (middle := self.median(measure)) is not None:
                values = row.scores.get(measure.name, {})
                by_seed = [number_text(values[s]) if s in values else "" for s in seeds]
                mean = score_text(row.summary(measure.name))
                lines.append([measure.name, mean, number_text(middle), *by_seed])
        head = ["score", "mean", "median", *(f"seed {seed}" for seed in seeds)]
        title = f"{self.shown.table.name} of {self.model}"
        return str(lab_api.Table(head, lines, title, [*self.shown.notes()]))

    def as_json(self) -> str:
        """The scores as one JSON object."""
        (row,), results = self.shown.results.rows, self.shown.results
        scores = {
            measure.name: {
                "mean": row.figure(measure.name), "median": self.median(measure),
                "seeds": row.scores.get(measure.name, {}),
            }
            for measure in self.shown.table.measures
        }  # fmt: skip
        facts = {"model": str(self.model), "runs": results.runs, "missing": results.missing}
        return json.dumps({"schema": 1, **facts, "scores": scores}, indent=1)


def glue(
    name: str, model: Path, tasks: Sequence[str], seeds: int, data: Sequence[str],
    settings: Sequence[str], out: Path | None, say: Callable[[str], None],
) -> tuple[GlueScores, list[Exception]]:  # fmt: skip
    """Fine-tune a model on tasks with seeds 1, 2, ...; its scores, and the failures.

    ``name`` is that of a table in ``TABLES``, ``model`` a run or a folder of Hugging Face.

    ``settings`` come after those of the table. Finished runs are not trained again.
    """
    if name not in TABLES:
        help = f"--table {' or --table '.join(TABLES)}"
        raise UsageError(f"{name[:60]} is no table of an encoder's tasks", help)
    if any(setting.lstrip().startswith("task") for setting in settings):
        help = "--tasks chooses tasks; --set changes epochs, optimizer, seq and the like of all"
        raise UsageError("--set task=... replaces the task of every run", help)
    table = of_tasks(read_table(name), tasks)
    if settings:
        row = table.rows[0].model_copy(update={"at": {PAPERS: " ".join(settings)}})
        table = table.model_copy(update={"rows": (row,)})
    folder = out or Path("runs") / name / os.path.basename(os.path.abspath(model))
    locks = [RunFolder(path.parent).read_lock() for path in folder.glob("*/*/seed-*/*/lock.json")]
    if locks and {lock.init for lock in locks if lock} != {lab_api.weights_digest(model)}:
        raise ResumeRefusedError(
            f"{folder} has runs of other weights than those of {model}",
            help=f"another --out, or remove {folder}",
        )
    files = [*data, f"{MODEL}={model}"]
    shown, failures = train_table(table, PAPERS, files, seeds, folder, say)
    return GlueScores(model, shown), failures


def of_tasks(table: Table, tasks: Sequence[str]) -> Table:
    """The table with the scores of these tasks, by default of those in its average.

    The first average is that of all tasks; of fewer there is another.
    """
    task_of = dict[str, str]()
    for measure in table.measures:
        names = [name for name in Template(measure.spec).get_identifiers() if name != MODEL]
        if names or measure.of:
            task_of[measure.name] = names[0] if names else task_of[measure.of]
    if unknown := next((task for task in tasks if task not in task_of.values()), None):
        known = ", ".join(dict.fromkeys(task_of.values()))
        raise UsageError(f"{table.name} has no task {unknown[:60]}", help=f"--tasks of: {known}")
    averaged = {part for measure in table.measures for part in measure.mean}
    chosen = {*tasks} or {task for name, task in task_of.items() if name in averaged}
    measures = dict[str, Measure]()
    for measure in table.measures:
        is_mean = bool(measure.mean) and measures.keys() >= {*measure.mean}
        if is_mean or task_of.get(measure.name) in chosen:
            measures[measure.name] = measure
    of_all = next(m.mean for m in table.measures if m.name.startswith(AVERAGE))
    parts = tuple(name for name in of_all if name in measures)
    if 1 < len(parts) < len(of_all):
        average = Measure(name=f"{AVERAGE} of {len(parts)}", mean=parts)
        measures[average.name] = average
    named = {name for m in measures.values() for name in Template(m.spec).get_identifiers()}
    needs = {name: need for name, need in table.needs.items() if name in named}
    return table.model_copy(update={"measures": (*measures.values(),), "needs": needs})
