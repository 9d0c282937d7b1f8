"""Sizes whose steps are free. Loads no torch.

With a budget of parameters the largest are taken. Without one every size uses up FLOPs or time, in
as many steps as there is room for: then no size is better by what it uses, and the one is taken
whose tokens a parameter are nearest to those that its family was trained with.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import ceil, inf, log

from bertc import Resolved, SpecError
from bertc.lab.fit.candidate import Candidate, Target, candidate, longest, tokens_of
from bertc.lab.fit.choice import SHOWN, Choice, Family
from bertc.lab.forecast.ladder import transfer
from bertc.lab.forecast.sealed import Forecast, sizes_of
from bertc.lab_api import Program, model_weights, points, programs, shipped_specs

Known = tuple[Program, Resolved]
ESTIMATED, SIZES = 24, 8
"""Sizes that are estimated at first, and those that are shown."""
OF_DEFAULTS = "bert-base"
"""The spec whose training is the language's defaults."""


def choose_with_steps(tried: Sequence[Program], target: Target) -> Choice:
    """Choose a size, with the most steps within the budgets."""
    known, mistakes = resolvable(tried)
    limit = next((budget.most for budget in target.budgets if budget.kind == "params"), inf)
    family = family_of(tried[0]) if limit == inf and len(known) > 1 else None
    ranked = _sizes(known, target, family) if family else _largest(known, target, limit)
    longer = (longest(option, target) for option in ranked)
    fitting = tuple(option for option in longer if max(option.shares(target.budgets)) <= 1)
    nearest = () if fitting else (longest(candidate(*min(known, key=about), target), target),)
    return Choice(
        target.budgets, fitting or nearest, len(fitting), len(known), len(mistakes),
        searched=True, family=family if fitting else None,
    )  # fmt: skip


def resolvable(tried: Iterable[Program]) -> tuple[list[Known], list[SpecError]]:
    """The programs that there are, and the mistakes of others; there has to be a program."""
    known, mistakes = list[Known](), list[SpecError]()
    for program in tried:
        try:
            known.append((program, points(program)[0]))
        except SpecError as error:
            mistakes.append(error)
    if not known:
        raise mistakes[0]
    return known, mistakes


def family_of(program: Program) -> Family:
    """The training of a program's family: that of the spec that it extends.

    Where this has no steps, that of the longest of those that extend it too; without any BERT's.
    """
    base = above = program.base
    while above and not (above.stages or {"steps", "epochs"} & above.settings.keys()):
        above = above.base
    if base and above:
        return _family_of(base)
    named = [
        name
        for name, file in shipped_specs().items()
        if base and f"extends {base.name}" in file.read_text().splitlines()
    ]
    return _family_of(*(programs(spec)[0] for spec in named or [OF_DEFAULTS]))


def _family_of(*tried: Program) -> Family:
    """The training of that program which reads the most tokens."""
    known = [(program.name, points(program)[0]) for program in tried]
    name, resolved = max(known, key=lambda pair: tokens_of(pair[1]))
    return Family(name, tokens_of(resolved) / _count(resolved))


def _count(resolved: Resolved) -> int:
    return sum(weight.numel for weight in model_weights(resolved))


def about(pair: Known) -> int:
    """The order of sizes, without a count of weights, which takes long of hundreds."""
    encoder = pair[1].encoder
    return encoder.hidden * (12 * encoder.depth * encoder.hidden + encoder.vocab_size)


def _largest(known: Sequence[Known], target: Target, limit: float) -> list[Candidate]:
    """The largest sizes within a number of parameters, those alone that will be shown."""
    counted = [(_count(resolved), number) for number, (_, resolved) in enumerate(known)]
    within = sorted((pair for pair in counted if pair[0] <= limit), reverse=True)
    return [candidate(*known[number], target) for _, number in within[:SHOWN]]


def _sizes(known: Sequence[Known], target: Target, family: Family) -> list[Candidate]:
    """Sizes of which no larger one reads more tokens: that nearest to the family, then others.

    A part of all sizes is looked at, and then those on both sides of the nearest.
    """
    known = sorted(known, key=about)
    places = spread_evenly(len(known), ESTIMATED)
    rough = {place: candidate(*known[place], target) for place in places}

    def away(option: Candidate) -> float:
        ratio = _reach(option, target) / option.parameters / family.tokens_per_parameter
        return abs(log(ratio)) if ratio else inf

    number = min(range(len(places)), key=lambda number: away(rough[places[number]]))
    between = range(places[max(0, number - 1)], places[min(len(places) - 1, number + 1)])
    rough |= {place: candidate(*known[place], target) for place in between if place not in rough}
    best, reached = list[Candidate](), 0.0
    for option in sorted(rough.values(), key=lambda option: option.parameters, reverse=True):
        if (reach := _reach(option, target)) > reached:
            best, reached = [*best, option], reach
    if not best:
        return []
    chosen = min(best, key=away)
    others = [best[place] for place in spread_evenly(len(best), SIZES)]
    return [chosen, *(option for option in others if option is not chosen)]


def spread_evenly(count: int, most: int) -> list[int]:
    """Places from the first to the last of ``count``, evenly."""
    return sorted({number * (count - 1) // max(1, most - 1) for number in range(most)})


def _reach(option: Candidate, target: Target) -> float:
    """The tokens that it can read within the budgets; 0 if others than those of steps refuse it."""
    if target.refuses(option):
        return 0.0
    return tokens_of(option.resolved) / max(option.shares(target.spent))


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
    ordered = sorted(options, key=lambda option: _order(option, target))
    within = [option for option in ordered if _order(option, target) < inf]
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
