"""A search: its best trial, how much each setting mattered, and scores over its values."""

from collections.abc import Sequence
from pathlib import Path

from bertc.lab.report.markup import element, in_picture, remark
from bertc.lab.report.page import Part
from bertc.lab.report.pictures import Picture, by_size, colour
from bertc.lab.search.outcome import LEAST_TRIALS, read_outcome
from bertc.lab_api import several, units

MAGNITUDE, SMALL = 10, 0.01
"""The largest of values by the smallest, and the largest alone, for a logarithmic axis."""


def search_section(folder: Path) -> Sequence[Part]:
    """The best trial, importances, and a picture of each setting."""
    outcome = read_outcome(folder)
    best, shares, count = outcome.best, outcome.importances(), len(outcome.trials)
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
        *(
            values_picture(name, pairs, number)
            for number, (name, pairs) in enumerate(outcome.slices().items(), 1)
        ),
        remark(text),
    )


def values_picture(name: str, pairs: Sequence[tuple[float | str, float]], number: int) -> Picture:
    """The scores of trials over the values of one setting."""
    values = [in_picture(value) if isinstance(value, str) else value for value, _ in pairs]
    points = {
        "type": "scatter", "mode": "markers", "x": values, "y": [score for _, score in pairs],
        "marker": {"size": 8, "color": colour(number)},
    }  # fmt: skip
    axis: dict[str, object] = {"type": "-", "exponentformat": "power"}
    if _is_logarithmic([value for value, _ in pairs]):
        axis["type"] = "log"
    elif texts := {value for value in values if isinstance(value, str)}:
        axis |= {"type": "category", "categoryarray": by_size(texts)}
    return Picture(f"Score by {name}", [points], {"xaxis": axis})


def _is_logarithmic(values: Sequence[float | str]) -> bool:
    """True of numbers of several magnitudes, and of small ones, as rates are."""
    numbers = [value for value in values if isinstance(value, float) and value > 0]
    if len(numbers) < len(values):
        return False
    return max(numbers) < SMALL or max(numbers) >= MAGNITUDE * min(numbers)
