"""Evaluations of several runs, with means over their seeds."""

from collections.abc import Sequence
from pathlib import Path

from bertc.lab.results.compare import Results
from bertc.lab.results.groups import group_runs
from bertc.lab.results.runs import find_folders, read_run
from bertc.lab_api import Manner, RunFolder, evaluate_run


def evaluate_runs(
    folders: Sequence[Path], manner: Manner | None = None, *, task: str = "", part: str = ""
) -> Results:
    """Evaluate runs and those below folders, with means over their seeds.

    Macro F1 and the F1 of classes are scores too. Notes that not all runs have begin with the
    run's folder.
    """
    paths = [
        path
        for folder in folders
        for path in ([folder] if RunFolder(folder).holds_a_run else find_folders([folder]))
    ]
    runs, notes = [], dict[Path, tuple[str, ...]]()
    for path in dict.fromkeys(paths):
        report = evaluate_run(path, manner, task=task, part=part)
        evaluation, notes[path] = report.evaluation, report.notes
        assert evaluation, "it was evaluated"
        values = evaluation.values
        for name, parts in evaluation.classes.items():
            for of_part, score in parts.items():
                values[name, of_part, "macro_f1"] = score.macro_f1
                values |= {(name, of_part, f"F1 of {n}"): c.f1 for n, c in score.classes.items()}
        runs.append(read_run(path).evaluated(report.step, values))
    common = [n for n in notes[runs[0].folder] if all(n in of_run for of_run in notes.values())]
    further = [f"{p}: {n}" for p, of_run in notes.items() for n in of_run if n not in common]
    return Results(tuple(group_runs(runs)), "of these evaluations", (*common, *further))
