"""``bertc report``: the page of one run, or of several."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from bertc.diagnostics import BertcError, several
from bertc.interop.belonging import refuse_strangers
from bertc.report.cost import RowLengths, cost_section
from bertc.report.curves import RunCurves, curves_section
from bertc.report.grid import grid_section, is_grid
from bertc.report.names import with_short_settings
from bertc.report.page import Section, document, section
from bertc.report.plotly_js import plotly_js
from bertc.report.scores import against_cost, group_label, groups_section, scores_of
from bertc.report.search import search_section
from bertc.report.spec import Parent, spec_section
from bertc.runs import metrics
from bertc.runs.curves import Curves, curves_of
from bertc.runs.folder import RunFolder
from bertc.runs.groups import Group, grouped
from bertc.runs.results import Run, find_folders, run_of
from bertc.search.store import has_search
from bertc.storage import durable
from bertc.storage.paths import cache_folder


def report_page(
    folders: Sequence[Path],
    parent_of: Callable[[Path], Parent | None],
    row_lengths: RowLengths,
    examples: int,
) -> str:
    """The page of the runs in these folders and below them, as HTML.

    ``parent_of`` finds the spec that a run extends, ``row_lengths`` are for the estimate of its
    cost; ``examples`` are shown of a run on its own.

    Raises:
        MissingInputError: if plotly is not installed, a folder does not exist, or there is no run.
        DataError: if the programs of runs are damaged.
    """
    plotly_js()
    found = [_read(path) for path in find_folders(folders)]
    searches = _searches(folders, found)
    if len(found) == 1 and not searches:
        return _of_one(found[0], parent_of, row_lengths, examples)
    return _of_several(found, searches)


def attention_page(run: Path, text: str, pair: str) -> str:
    """The page of a model's attention over a text, or over a pair of texts, as HTML.

    Raises:
        MissingInputError, DataError: if there is no model, or it has no heads.
        UsageError: if the text has no tokens.
    """
    from bertc.inference.trained import load
    from bertc.report.attention import attention_body

    body = attention_body(load(run).attention(text, pair))
    shown = f"{text} / {pair}" if pair else text
    return document(f"Attention of {run.resolve().name}", shown, [Section("Heads", body)])


def write_page(page: str, path: Path) -> None:
    """Write a page, whole or not at all.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    durable.replace(path, page.encode(), elsewhere="name another file with -o")


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


def _searches(folders: Sequence[Path], found: Sequence[_Read]) -> list[Path]:
    """The folders of searches whose trials are among these runs, but for runs that are named."""
    above = (each.run.folder.parent for each in found if each.run.folder not in folders)
    return [folder for folder in dict.fromkeys(above) if has_search(folder)]


def _of_one(
    read: _Read,
    parent_of: Callable[[Path], Parent | None],
    row_lengths: RowLengths,
    examples: int,
) -> str:
    run = read.run
    refuse_strangers(run.folder)
    folder = RunFolder(run.folder)
    sections = [
        section("Spec", lambda: spec_section(folder, parent_of(run.folder))),
        section("Scores", lambda: groups_section(grouped([run]))),
        section("Curves", lambda: curves_section([RunCurves("", 0, read.curves)])),
        section("Cost", lambda: cost_section(folder, read.curves, row_lengths)),
    ]
    if examples:
        # They load torch.
        from bertc.report.attention import attention_section
        from bertc.report.examples import examples_section

        about = run.resolved, run.folder, cache_folder()
        sections.append(section("Examples", lambda: examples_section(*about, examples)))
        sections.append(section("Attention", lambda: attention_section(*about)))
    return document(run.folder.resolve().name, _standing(run), sections)


def _standing(run: Run) -> str:
    if run.finished:
        return f"{run.folder}, finished after {several(run.resolved.steps, 'step')}"
    return f"{run.folder}, at step {run.standing}"


def _of_several(read: Sequence[_Read], searches: Sequence[Path]) -> str:
    runs = [each.run for each in read]
    groups = with_short_settings(grouped(runs))
    names, found = _names(groups), {each.run.folder: _curves(each) for each in read}
    drawn = [
        RunCurves(f"{names[number]}, seed {run.resolved.run.seed}", number, curves)
        for number, group in enumerate(groups)
        for run in group.runs
        if (curves := found[run.folder])
    ]
    sections = [section("Search", partial(search_section, folder)) for folder in searches]
    if not searches and is_grid(groups) and scores_of(groups):
        sections.append(section("Grid", lambda: grid_section(groups)))
    sections.append(section("Runs", lambda: groups_section(groups)))
    if scores_of(groups):
        sections.append(section("Score and cost", lambda: against_cost(groups, names, found)))
    sections.append(section("Curves", lambda: curves_section(drawn, names)))
    unfinished = sum(not run.finished for run in runs)
    below = f"{len(groups)} groups of runs" + (f", {unfinished} unfinished" if unfinished else "")
    return document(several(len(runs), "run"), below, sections)


def _names(groups: Sequence[Group]) -> list[str]:
    """A short name of each group: settings that differ, else the part of its path that does."""
    settings = [group_label(group) for group in groups]
    if len({*settings}) == len(groups) and all(settings):
        return settings
    places = [group.place for group in groups]
    common = os.path.commonpath(places) if len({Path(p).is_absolute() for p in places}) == 1 else ""
    return [os.path.relpath(place, common) if common else place for place in places]


def _curves(read: _Read) -> Curves | None:
    """The curves of a run; None if its files are damaged."""
    try:
        return read.curves
    except BertcError:
        return None
