"""The cost of a setting: the estimate of a spec with it and without it, as in ``bertc diff``."""

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass
class CostSoFar:
    """The cost of a setting as far as it is known, as Markdown; filled by ``work_out``."""

    text: str = ""


def work_out(answer: CostSoFar, place: SpecLocation, setting: Span) -> None:
    """Compare a spec with and without a setting: parameters first, then the columns of ``diff``.

    Grids have no cost, nor has a setting without which there is no valid spec.
    """
    without = replace_text(place, setting)
    here, there = _parameters(place), _parameters(without)
    if here is None or there is None:
        return
    answer.text = _line("parameters", count_text, here, there)
    cost, cost_without = _cost(place), _cost(without)
    if cost and cost_without:
        lines = [_line(title, text, of(cost), of(cost_without)) for title, of, text in COLUMNS]
        answer.text = "\n".join(filter(None, lines)) or "It changes no cost."


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
