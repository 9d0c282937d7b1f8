"""``bertc report``: the page of one run, or of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from bertc import BertcError, Run, RunFolder, grouped
from bertc.base.diagnostics import several
from bertc.hub.belonging import refuse_strangers
from bertc.lab.report.cost import cost_section
from bertc.lab.report.curves import RunCurves, curves_section
from bertc.lab.report.page import Section, document, section
from bertc.lab.report.pictures import plotly
from bertc.lab.report.scores import against_cost, by_setting, group_label, groups_section, scores_of
from bertc.lab.report.search import search_section
from bertc.lab.report.spec import spec_section
from bertc.lab.results.curves import Curves, curves_of
from bertc.lab.search.store import has_search
from bertc.run.records import metrics
from bertc.run.records.results import find_folders, run_of


def report_page(folders: Sequence[Path]) -> str:
    """The page of the runs in these folders and below them, as HTML.

    Raises:
        MissingInputError: if plotly is not installed, a folder does not exist, or there is no run.
        DataError: if the programs of runs are damaged.
    """
    plotly()
    read = [_read(path) for path in find_folders(folders)]
    above = (each.run.folder.parent for each in read if each.run.folder not in folders)
    searches = [folder for folder in dict.fromkeys(above) if has_search(folder)]
    if len(read) == 1 and not searches:
        return _of_one(read[0])
    return _of_several(read, searches)


@dataclass(frozen=True)
class _Read:
    """A run, and the lines of its metrics."""

    run: Run
    lines: Sequence[metrics.Line]

    @cached_property
    def curves(self) -> Curves:
        """Its curves.

        Raises:
            MissingInputError, DataError: if its attempts cannot be read, or are damaged.
        """
        return curves_of(RunFolder(self.run.folder), self.run.resolved, self.lines)


def _read(path: Path) -> _Read:
    folder = RunFolder(path)
    resolved, lines = folder.read_resolved(), folder.read_metrics()
    return _Read(run_of(folder, resolved, lines), lines)


def _of_one(read: _Read) -> str:
    run, folder = read.run, RunFolder(read.run.folder)
    refuse_strangers(run.folder)
    sections = [
        section("Spec", lambda: spec_section(folder)),
        section("Scores", lambda: groups_section(grouped([run]))),
        section("Curves", lambda: curves_section([RunCurves("", "", read.curves)])),
        section("Cost", lambda: cost_section(folder, run, read.curves)),
    ]
    done = f"finished after {several(run.resolved.steps, 'step')}"
    at = done if run.finished else f"at step {run.standing}"
    return document(run.folder.resolve().name, f"{run.folder}, {at}", sections)


def _of_several(read: Sequence[_Read], searches: Sequence[Path]) -> str:
    runs = [each.run for each in read]
    groups = grouped(runs)
    curves = {each.run.folder: _curves(each) for each in read}
    drawn = [
        RunCurves(f"{group_label(group)}, seed {run.resolved.run.seed}", group_label(group), of_run)
        for group in groups
        for run in group.runs
        if (of_run := curves[run.folder])
    ]
    sections = [section("Search", partial(search_section, folder)) for folder in searches]
    sections.append(section("Runs", lambda: groups_section(groups)))
    if scores_of(groups):
        if varied := by_setting(groups):
            sections.append(Section("Scores by setting", varied))
        sections.append(section("Scores against cost", lambda: against_cost(groups, curves)))
    sections.append(section("Curves", lambda: curves_section(drawn)))
    unfinished = sum(not run.finished for run in runs)
    below = f"{len(groups)} groups of runs" + (f", {unfinished} unfinished" if unfinished else "")
    return document(several(len(runs), "run"), below, sections)


def _curves(read: _Read) -> Curves | None:
    """The curves of a run; None if its files are damaged."""
    try:
        return read.curves
    except BertcError:
        return None
