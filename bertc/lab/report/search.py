"""A search: its best trial, how much each setting mattered, and scores over its values."""

from collections.abc import Sequence
from pathlib import Path

from bertc.lab.report.markup import element, in_picture, remark
from bertc.lab.report.page import Part
from bertc.lab.report.pictures import Dot, Picture, scatter
from bertc.lab.search.outcome import LEAST_TRIALS, Tried, read_outcome
from bertc.lab_api import several, units


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
