"""A search: its best trial, how much each setting mattered, and scores over its values."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from bertc.diagnostics import several
from bertc.estimate.units import duration_text, flops_text
from bertc.report.markup import Content, element, in_picture, note_below
from bertc.report.page import Picture
from bertc.report.plotly_js import COLOURS, figure, picture_title, trace
from bertc.search.outcome import LEAST_TRIALS, Outcome, Tried, read_outcome

TRIAL_MARKS = {"finished": "circle", "stopped early": "circle-open", "unfinished": "x-thin-open"}
"""States of trials with a score, and their marks."""

MOST_TICKS = 12
"""Values of a whole number up to which each has a tick."""


def search_section(folder: Path) -> Sequence[Content | Picture]:
    """The best trial, the trials in order, importances, and a picture of each setting.

    Raises:
        MissingInputError: if Optuna is not installed.
    """
    outcome = read_outcome(folder)
    best, importances = outcome.best, outcome.importances()
    cost = (
        f"{several(len(outcome.trials), 'trial')} took {duration_text(outcome.seconds)} and "
        f"{flops_text(outcome.flops)}."
    )
    if best is None:
        return (element("p", f"No trial has finished yet. {cost}"),)
    named = f", {outcome.goal.name} {best.score:.4f} (trial {best.number}). {cost}"
    mattered = [_importances(importances)] if importances else []
    states = (f"{mark}: {state}" for state, mark in zip(TRIAL_MARKS, "●○×", strict=True))
    return (
        element("p", "Best: ", element("strong", _settings(best)), named),
        _in_order(outcome),
        *mattered,
        *(_slice(outcome, name, number) for number, name in enumerate(outcome.slices(), 1)),
        note_below(
            f"{', '.join(states)}. What mattered: the share of each setting in what separates good "
            "trials from others (PED-ANOVA, Watanabe et al. 2023); it needs "
            f"{LEAST_TRIALS} finished trials."
        ),
    )


def _settings(trial: Tried) -> str:
    return " ".join(trial.settings) or "the spec as it is"


def _points(outcome: Outcome, trials: Sequence[Tried], xs: Sequence[Any], colour: str) -> Any:
    """Scores of trials as points, marked by how the trials ended."""
    return trace(
        "scatter", mode="markers", name="trials", x=list(xs), y=[trial.score for trial in trials],
        marker={
            "size": 8, "color": colour, "opacity": 0.85,
            "symbol": [TRIAL_MARKS.get(trial.state, "x-thin-open") for trial in trials],
            "line": {"width": 1.5, "color": colour},
        },
        text=[in_picture(f"trial {each.number}: {_settings(each)}") for each in trials],
        hovertemplate=f"{in_picture(outcome.goal.name)} %{{y:.4f}}<extra>%{{text}}</extra>",
    )  # fmt: skip


def _in_order(outcome: Outcome) -> Picture:
    """The scores of trials in their order, and the best finished one until each."""
    trials = [trial for trial in outcome.trials if trial.score is not None]
    done = [(t.number, t.score or 0.0) for t in trials if t.state == "finished"]
    best = accumulate((score for _, score in done), max if outcome.goal.more_is_better else min)
    line = trace(
        "scatter", mode="lines", name="best", x=[number for number, _ in done], y=list(best),
        line={"shape": "hv", "width": 1.5, "color": COLOURS[1]}, hoverinfo="skip",
    )  # fmt: skip
    points = _points(outcome, trials, [trial.number for trial in trials], COLOURS[0])
    made = figure(
        [line, points],
        title=picture_title(
            f"{in_picture(outcome.goal.name)} of each trial, and the best until it"
        ),
        showlegend=False,
        xaxis={"title": {"text": "trial"}},
    )
    return Picture(made)


def _importances(shares: dict[str, float]) -> Picture:
    names = list(reversed(shares))
    bars = trace(
        "bar", orientation="h", y=[*map(in_picture, names)], x=[shares[name] for name in names],
        marker={"color": COLOURS[2]}, text=[f"{shares[name]:.0%}" for name in names],
        textposition="auto", hovertemplate="%{y}: %{x:.1%}<extra></extra>",
    )  # fmt: skip
    made = figure(
        [bars],
        title=picture_title("What mattered"),
        showlegend=False,
        xaxis={"tickformat": ".0%", "rangemode": "tozero"},
        yaxis={"automargin": True, "type": "category"},
    )
    return Picture(made)


def _slice(outcome: Outcome, name: str, number: int) -> Picture:
    """The scores of trials over the values of one setting."""
    trials = [t for t in outcome.trials if t.score is not None and name in t.values]
    values = [trial.values[name] for trial in trials]
    numbers = all(isinstance(value, float) for value in values)
    kind = ("log" if outcome.spans_decades(name) else "linear") if numbers else "category"
    whole = all(isinstance(value, float) and value.is_integer() for value in values)
    few = len({*values}) <= MOST_TICKS
    xs = [value if isinstance(value, float) else in_picture(value) for value in values]
    made = figure(
        [_points(outcome, trials, xs, COLOURS[number % len(COLOURS)])],
        title=picture_title(f"{in_picture(outcome.goal.name)} by {in_picture(name)}"),
        showlegend=False,
        xaxis={"type": kind, "exponentformat": "power", "automargin": True,
               "dtick": 1 if whole and few else None},
    )  # fmt: skip
    return Picture(made)
