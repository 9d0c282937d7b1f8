"""``bertc report``: the page of one run, or of several."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bertc import BertcError
from bertc.lab.report import scores
from bertc.lab.report.cost import cost_section
from bertc.lab.report.curves import RunCurves, curves_section
from bertc.lab.report.forecast import forecast_section
from bertc.lab.report.page import Section, document, section
from bertc.lab.report.pictures import plotly
from bertc.lab.report.search import search_section
from bertc.lab.report.spec import spec_section
from bertc.lab.results.curves import Curves, curves
from bertc.lab.results.groups import group_runs
from bertc.lab.results.runs import Run, find_folders, read_run
from bertc.lab.search.store import has_search
from bertc.lab_api import RunFolder, several


def report_page(folders: Sequence[Path]) -> str:
    """The page of the runs in these folders and below them, as HTML."""
    plotly()
    runs = [read_run(path) for path in find_folders(folders)]
    above = (run.folder.parent for run in runs if run.folder not in folders)
    searches = [folder for folder in dict.fromkeys(above) if has_search(folder)]
    return _of_several(runs, searches) if len(runs) > 1 or searches else _of_one(runs[0])


def _of_one(run: Run) -> str:
    folder, of_run = RunFolder(run.folder), partial(curves, run.folder)
    folder.refuse_mixed()
    sections = [
        section("Result", lambda: scores.result_section(run)),
        section("Forecast", lambda: forecast_section(folder, of_run())),
        section("Curves", lambda: curves_section([RunCurves("", "", of_run())])),
        section("Cost", lambda: cost_section(folder, run)),
        section("Spec", lambda: spec_section(folder)),
    ]
    done = f"finished after {several(run.step, 'step')}"
    at = done if run.finished else f"at step {run.standing}"
    filled = [part for part in sections if part.body]
    return document(run.folder.resolve().name, f"{run.folder}, {at}", filled)


def _of_several(runs: Sequence[Run], searches: Sequence[Path]) -> str:
    groups = group_runs(runs)
    drawn = [
        RunCurves(f"{label}, seed {run.resolved.run.seed}", label, of_run)
        for group in groups
        for label in [scores.group_label(group)]
        for run in group.runs
        if (of_run := _curves(run.folder))
    ]
    sections = [section("Search", partial(search_section, folder)) for folder in searches]
    sections.append(section("Runs", lambda: scores.groups_section(groups)))
    if scores.scores_of(groups):
        if varied := scores.by_setting(groups):
            sections.append(Section("Scores by setting", varied))
        sections.append(section("Scores against cost", lambda: scores.against_cost(groups)))
    sections.append(section("Curves", lambda: curves_section(drawn)))
    unfinished = sum(not run.finished for run in runs)
    below = f"{len(groups)} groups of runs" + (f", {unfinished} unfinished" if unfinished else "")
    return document(several(len(runs), "run"), below, sections)


def _curves(folder: Path) -> Curves | None:
    """The curves of a run; None if its files are damaged."""
    try:
        return curves(folder)
    except BertcError:
        return None
