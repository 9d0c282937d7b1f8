"""Evaluations of several runs, with means over their seeds."""

from collections.abc import Sequence
from pathlib import Path

from bertc import Manner, Report, Run, RunFolder, evaluate_run, find_folders, read_run
from bertc.lab.results.compare import Results
from bertc.lab.results.groups import grouped


def evaluate_runs(
    folders: Sequence[Path],
    manner: Manner | None = None,
    *,
    task: str = "",
    part: str = "",
    quiet: bool = False,
) -> Report | Results:
    """Evaluate a run, or several and those below folders, with means over their seeds.

    Notes that not all of several runs have begin with the run's folder.
    """
    runs = [
        run
        for folder in folders
        for run in ([folder] if RunFolder(folder).holds_a_run else find_folders([folder]))
    ]
    reports = [
        evaluate_run(run, manner, task=task, part=part, quiet=quiet) for run in dict.fromkeys(runs)
    ]
    if runs == list(folders) and len(reports) == 1:
        return reports[0]
    common = [n for n in reports[0].notes if all(n in report.notes for report in reports)]
    further = [f"{r.folder}: {note}" for r in reports for note in r.notes if note not in common]
    groups = tuple(grouped([*map(_evaluated, reports)]))
    return Results(groups, "of these evaluations", (*common, *further))


def _evaluated(report: Report) -> Run:
    """A run with this evaluation as its only one; macro F1 and that of classes are scores too."""
    evaluation = report.evaluation
    assert evaluation, "it was evaluated"
    values = evaluation.values
    for task, parts in evaluation.classes.items():
        for part, score in parts.items():
            values[task, part, "macro_f1"] = score.macro_f1
            values |= {(task, part, f"F1 of {n}"): c.f1 for n, c in score.classes.items()}
    return read_run(report.folder).evaluated(report.step, values)
