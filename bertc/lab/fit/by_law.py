"""Sizes and steps by the loss that a law expects of them. Loads no torch."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import ceil, inf

from bertc import SpecError
from bertc.lab.fit.candidate import Candidate, Target, candidate, longest, tokens_of
from bertc.lab.fit.choice import Choice
from bertc.lab.fit.sizes import Known, about, resolvable, spread_evenly
from bertc.lab.forecast.ladder import transfer
from bertc.lab.forecast.sealed import Forecast, sizes_of
from bertc.lab_api import Program, points

TRIED = 12
"""Sizes that are tried at first; then those next to the best."""


def choose_by_law(
    tried: Sequence[Program], target: Target, law: Forecast, *, free_steps: bool
) -> Choice:
    """The lowest expected loss within the budgets, or the least time for a loss.

    Loss over size has one minimum at a budget: a part of all sizes is tried, then those around the
    best. Sizes so far beyond the ladder that the law is not trusted are left out.
    """
    known, mistakes = resolvable(tried)
    law.refuse_others(known[0][1])
    known = sorted(known, key=about)

    @cache
    def option(place: int) -> Candidate:
        return _option(known[place], target, law, free_steps=free_steps)

    places = spread_evenly(len(known), TRIED if free_steps else len(known))
    number = min(range(len(places)), key=lambda n: _order(option(places[n]), target))
    nearest = range(places[max(0, number - 1)], places[min(len(places) - 1, number + 1)])
    options = [option(place) for place in sorted({*places, *nearest})]
    ordered = sorted(options, key=lambda one: _order(one, target))
    within = [one for one in ordered if _order(one, target) < inf]
    return Choice(
        target.budgets, tuple(within or ordered), len(within), len(known), len(mistakes),
        searched=free_steps, law=law.name,
    )  # fmt: skip


def _order(option: Candidate, target: Target) -> float:
    """The loss, or the seconds to a loss; inf of what is over a budget or far off."""
    assert option.expected is not None, "a law has been asked"
    if option.expected.is_far or max((0.0, *option.shares(target.budgets))) > 1:
        return inf
    if not target.loss:
        return option.expected.loss
    return option.figures["time"] if option.expected.loss <= target.loss else inf


def _option(known: Known, target: Target, law: Forecast, *, free_steps: bool) -> Candidate:
    """A program with its expected loss; with free steps as many as there is room or need for.

    Its first values and rates are those of the law's spec, made fit for its width.
    """
    program, resolved = known
    if (width := resolved.encoder.hidden) != law.width:
        program = transfer(program, resolved, law.width, width)
        known = program, points(program)[0]
    if free_steps and target.loss:
        known = _with_enough_steps(known, target.loss, law)
    chosen = candidate(*known, target)
    if free_steps and not target.loss:
        chosen = longest(chosen, target)
    return replace(chosen, expected=law.expected(chosen.resolved))


def _with_enough_steps(known: Known, loss: float, law: Forecast) -> Known:
    """A program with the fewest steps that reach a loss; as it is if none do."""
    program, resolved = known
    tokens = law.law.tokens_for(*sizes_of(resolved), loss)
    if tokens == inf:
        return known
    steps = ceil(tokens / (tokens_of(resolved) / resolved.steps))
    longer = program.with_values(steps=steps)
    try:
        return longer, points(longer)[0]
    except SpecError:  # of a number of steps that its other settings have no room for
        return known
