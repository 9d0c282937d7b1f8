"""The cost of a setting: the estimate of a spec with it and without it, as in ``bertc diff``."""

from collections.abc import Callable
from functools import lru_cache

from bertc.api import points
from bertc.diagnostics import BertcError, Span, SpecError
from bertc.diff import COLUMNS, Cost, cost_of
from bertc.estimate.latency.predicted import TOKENS_OF_A_TEXT
from bertc.estimate.units import change_text, count_text
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.syntax import SpecLocation

DEVICE = "h200"
KEPT_COSTS = 64


def cost_text(place: SpecLocation, setting: Span) -> str:
    """The cost of a setting as Markdown: the figures with and without it, where they differ.

    Grids have no cost, nor has a setting without which there is no valid spec.
    """
    without = replace_text(place, setting)
    here, there = _parameters(place), _parameters(without)
    if here is None or there is None:
        return ""
    cost, cost_without = _cost(place), _cost(without)
    if cost is None or cost_without is None:
        return _line("parameters", count_text, here, there)
    lines = [_line(title, text, of(cost), of(cost_without)) for title, of, text in COLUMNS]
    return "\n".join(filter(None, lines)) or "It changes no cost."


def replace_text(place: SpecLocation, setting: Span) -> SpecLocation:
    """A spec without one of its settings."""
    text = place.text
    return place._replace(text=text[: setting.start] + " " + text[setting.end :])


def _line(title: str, text: Callable[[float], str], here: float, there: float) -> str:
    """A figure of both; empty if it is the same."""
    if here == there:
        return ""
    return f"- {title}: {text(here)}; {text(there)} without it ({change_text(there, here)})"


def _resolved(place: SpecLocation) -> Resolved | None:
    """The program of a spec; None of a grid or of one with mistakes."""
    try:
        found = points(place)
    except (SpecError, BertcError):
        return None
    return found[0] if len(found) == 1 else None


@lru_cache(KEPT_COSTS)
def _parameters(place: SpecLocation) -> int | None:
    resolved = _resolved(place)
    return sum(weight.numel for weight in model_weights(resolved)) if resolved else None


@lru_cache(KEPT_COSTS)
def _cost(place: SpecLocation) -> Cost | None:
    resolved = _resolved(place)
    if resolved is None:
        return None
    tokens = min(TOKENS_OF_A_TEXT, resolved.encoder.room or TOKENS_OF_A_TEXT)
    try:
        return cost_of(resolved, DEVICE, tokens)
    except BertcError:
        return None


def forget() -> None:
    """Forget all figures: a file that they depend on may have changed."""
    _parameters.cache_clear()
    _cost.cache_clear()
