"""``bertc report``: the page of one run, or of several."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bertc import BertcError
from bertc.lab.report.cost import cost_section
from bertc.lab.report.curves import RunCurves, curves_section
from bertc.lab.report.page import Section, document, section
from bertc.lab.report.pictures import plotly
from bertc.lab.report.samples import samples_section
from bertc.lab.report.scores import (
    against_cost,
    by_setting,
    group_label,
    groups_section,
    result_section,
    scores_of,
)
from bertc.lab.report.search import search_section
from bertc.lab.report.spec import spec_section
from bertc.lab.results.curves import Curves, curves
from bertc.lab.results.groups import grouped
from bertc.lab.results.runs import Run, find_folders, read_run
from bertc.lab.search.store import has_search
from bertc.lab_api import RunFolder


def report_page(folders: Sequence[Path]) -> str:
    """The page of the runs in these folders and below them, as HTML.

    Raises:
        MissingInputError: if plotly is not installed, a folder does not exist, or there is no run.
        DataError: if the programs of runs are damaged.
    """
    plotly()
    runs = [read_run(path) for path in find_folders(folders)]
    above = (run.folder.parent for run in runs if run.folder not in folders)
    searches = [folder for folder in dict.fromkeys(above) if has_search(folder)]
    return _of_several(runs, searches) if len(runs) > 1 or searches else _of_one(runs[0])


def _of_one(run: Run) -> str:
    folder, of_run = RunFolder(run.folder), partial(curves, run.folder)
    folder.refuse_mixed()
    sections = [
        section("Result", lambda: result_section(run)),
        section("Curves", lambda: curves_section([RunCurves("", "", of_run())])),
        section("Answers", lambda: samples_section(run)),
        section("Cost", lambda: cost_section(folder, run, of_run())),
        section("Spec", lambda: spec_section(folder)),
    ]
    steps = run.steps
    done = f"finished after {steps:,} step{'s' * (steps != 1)}"
    at = done if run.finished else f"at step {run.standing}"
    filled = [part for part in sections if part.body]
    return document(run.folder.resolve().name, f"{run.folder}, {at}", filled)


def _of_several(runs: Sequence[Run], searches: Sequence[Path]) -> str:
    groups = grouped(runs)
    by_folder = {run.folder: _curves(run.folder) for run in runs}
    drawn = [
        RunCurves(f"{group_label(group)}, seed {run.resolved.run.seed}", group_label(group), of_run)
        for group in groups
        for run in group.runs
        if (of_run := by_folder[run.folder])
    ]
    sections = [section("Search", partial(search_section, folder)) for folder in searches]
    sections.append(section("Runs", lambda: groups_section(groups)))
    if scores_of(groups):
        if varied := by_setting(groups):
            sections.append(Section("Scores by setting", varied))
        sections.append(section("Scores against cost", lambda: against_cost(groups, by_folder)))
    sections.append(section("Curves", lambda: curves_section(drawn)))
    unfinished = sum(not run.finished for run in runs)
    below = f"{len(groups)} groups of runs" + (f", {unfinished} unfinished" if unfinished else "")
    return document(f"{len(runs):,} run{'s' * (len(runs) != 1)}", below, sections)


def _curves(folder: Path) -> Curves | None:
    """The curves of a run; None if its files are damaged."""
    try:
        return curves(folder)
    except BertcError:
        return None
