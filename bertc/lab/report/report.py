"""``bertc report``: the page of one run, or of several."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from bertc import BertcError, DataError
from bertc.lab.report import scores
from bertc.lab.report.cost import cost_section
from bertc.lab.report.curves import RunCurves, curves_section
from bertc.lab.report.markup import element, in_picture, remark
from bertc.lab.report.page import Part, Section, document, fold, section
from bertc.lab.report.pictures import Dot, Picture, plotly, scatter
from bertc.lab.results.curves import Curves, curves
from bertc.lab.results.diff import diff
from bertc.lab.results.groups import group_runs
from bertc.lab.results.runs import Run, find_folders, read_run
from bertc.lab.search.goal import LOSS, goal_of
from bertc.lab.search.outcome import LEAST_TRIALS, Tried, read_outcome
from bertc.lab.search.store import has_search
from bertc.lab_api import Expected, RunFolder, Table, settings_texts, several, units


def search_section(folder: Path) -> Sequence[Part]:
    """The best trial, importances, and a picture of each setting."""
    outcome = read_outcome(folder)
    best, shares, count = outcome.best, outcome.importances, len(outcome.trials)
    cost = (
        f"{several(count, 'trial')} took {units.duration_text(outcome.seconds)} and "
        f"{units.flops_text(outcome.flops)}."
    )
    if best is None:
        return (element("p", f"No trial has finished yet. {cost}"),)
    settings = " ".join(best.settings) or "the spec as it is"
    named = f", {outcome.goal.name} {best.score:.4f} (trial {best.number}). {cost}"
    bars = {
        "type": "bar", "orientation": "h", "y": [*map(in_picture, reversed(shares))],
        "x": list(reversed(shares.values())),
    }  # fmt: skip
    text = (
        "What mattered: the share of each setting in what separates good trials from others "
        f"(PED-ANOVA, Watanabe et al. 2023); it needs {LEAST_TRIALS} finished trials."
    )
    return (
        element("p", "Best: ", element("strong", settings), named),
        *([Picture("What mattered", [bars], {"xaxis": {"tickformat": ".0%"}})] if shares else []),
        *(scatter(f"Score by {name}", dots) for name, dots in _dots(outcome.ranked).items()),
        remark(text),
    )


def _dots(trials: Sequence[Tried]) -> dict[str, list[Dot]]:
    """The score of every trial over its value of each setting."""
    dots = dict[str, list[Dot]]()
    for trial in trials:
        for name, value in trial.values.items():
            dot = Dot({name: value}, trial.score or 0.0, 0, f"trial {trial.number}")
            dots.setdefault(name, []).append(dot)
    return dots


_EXTENDS = re.compile(r'^\s*extends\s+(?:"([^"]+)"|([\w-]+))', re.MULTILINE)


def spec_section(folder: RunFolder) -> Sequence[Part]:
    """The text of the spec, settings that its parent has otherwise, and where it was trained."""
    text = folder.spec.read_text(encoding="utf-8").strip()
    settings = settings_texts(folder.read_resolved())
    rows = [
        (
            f"{attempt.step:,}",
            datetime.fromtimestamp(attempt.time, UTC).strftime("%Y-%m-%d %H:%M UTC"),
            attempt.host,
            attempt.device,
            f"{attempt.processes}",
        )
        for attempt in folder.read_attempts()
    ]
    head = ("from step", "when", "host", "device", "processes")
    return (
        element("pre", element("code", text)),
        fold("every setting in effect", Table(("setting", "value"), [*settings.items()])),
        *_difference(folder, text),
        fold("when it was trained", Table(head, rows)),
    )


def _difference(folder: RunFolder, text: str) -> Sequence[Part]:
    """The settings that the spec that a run extends has otherwise, and what each costs."""
    extends = _EXTENDS.search(text)
    if not extends:
        return ()
    name = extends[1] or extends[2]
    title = element("h3", "Compared with ", element("code", name), ", which it extends")
    lock = folder.read_lock()
    device = "cpu" if lock is None or lock.plan.device == "cpu" else "h200"
    try:
        return (title, diff(name, str(folder.path), device=device).table())
    except BertcError as error:
        return (title, element("p", f"It cannot be compared: {error.message}."))


SEALED = "Sealed: its digest was noted at the first step."
UNSEALED = "Not sealed: the file is another than at the first step, or came later."


def forecast_section(folder: RunFolder, curves: Curves) -> Sequence[Part]:
    """A table of the expected loss and the last one; nothing without a forecast."""
    if not folder.forecast.is_file():
        return ()
    text = folder.forecast.read_bytes()
    try:
        facts = json.loads(text)
        numbers = {name: float(number) for name, number in facts["expected"].items()}
        expected, of_program = Expected(**numbers), facts["fingerprint"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder.forecast} is no forecast") from error
    resolved = folder.read_resolved()
    losses = goal_of(LOSS, resolved).values(curves)
    came = f"{losses[-1]:.3f}" if losses else ""
    away = f"{losses[-1] / expected.loss - 1:+.1%}" if losses else ""
    attempts = folder.read_attempts()
    sealed = bool(attempts) and attempts[0].forecast == sha256(text).hexdigest()
    another = " It is of another program." if of_program != resolved.fingerprint() else ""
    return (
        Table(("", "expected", "came out", "difference"), [("loss", str(expected), came, away)]),
        remark(f"{SEALED if sealed else UNSEALED}{another}"),
    )


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
