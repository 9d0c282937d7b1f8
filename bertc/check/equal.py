"""``steps=equal(...)``, made a number of steps: as many as a budget of FLOPs or time has room for.

The points of a grid get the same budget, that of the first one or a stated one. Loads no torch.
"""

import math
from collections.abc import Callable, Sequence

from bertc.base.diagnostics import Diagnostics, several
from bertc.check.facts import facts
from bertc.check.facts.counts import add_text_counts
from bertc.check.facts.examples import row_lengths
from bertc.check.passes import assemble, complete
from bertc.cost import estimate
from bertc.cost.units import duration_text, flops_text
from bertc.ir.learning.equal import Equal, Flops, Hours
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Given, Origin, Program

STEPS = "steps"
SECONDS = 3600
TRIES = 50
"""Most estimates of one number of steps; a few do, since figures grow with it nearly evenly."""
MOST_ESTIMATED = 1_250
"""Layers of all stages of all points, 3 more a stage, that are estimated: two seconds of them."""


def equalise(programs: Sequence[Program], diagnostics: Diagnostics) -> list[Program]:
    """The programs with a number of steps for each ``steps=equal(...)``."""
    first: dict[Equal, float] = {}
    return [_equalise_one(program, first, len(programs), diagnostics) for program in programs]


def _equalise_one(
    program: Program, first: dict[Equal, float], points: int, diagnostics: Diagnostics
) -> Program:
    setting = _find_equal(program)
    if setting is None:
        return program
    equal: Equal = setting.value
    settled = set_steps(program, equal.steps) if equal.steps else program
    resolved = _try(settled)
    if resolved is None:  # its mistakes are reported when the passes see it
        return settled
    if points * sum(3 + stage.layers for stage in resolved.stages) > MOST_ESTIMATED:
        _too_large(setting, points, resolved, diagnostics)
        return settled
    lengths = dict[int, tuple[int, ...]]()  # by stages, of which fewer steps may have fewer

    def figure(resolved: Resolved) -> float:
        if (stages := len(resolved.stages)) not in lengths:
            (lengths[stages],) = row_lengths([resolved])
        cost = estimate(resolved, equal.device, lengths=lengths[stages])
        by_time = equal.budget == "time" or isinstance(equal.budget, Hours)
        return cost.time.seconds_total if by_time else cost.flops.train_total

    match equal.budget:
        case Flops(flops=flops):
            most = flops
        case Hours(hours=hours):
            most = hours * SECONDS
        case _:
            most = first.setdefault(equal, figure(resolved))

    def of(steps: int) -> float:
        resolved = _try(set_steps(program, steps))
        return figure(resolved) if resolved else math.inf

    steps = most_steps(of, most, resolved.steps)
    if steps == 1 and (first_step := of(1)) > most:
        _no_step(setting, equal, first_step, diagnostics)
        return settled
    return set_steps(program, steps, setting)


def _too_large(setting: Given, points: int, resolved: Resolved, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "E113",
        f"steps=equal(...) is found by estimates, and there are too many for {points:,} specs of "
        f"{several(len(resolved.stages), 'stage')} with {several(resolved.encoder.depth, 'layer')}",
        setting.origin.span,
        help="steps as a number, or fewer alternatives",
    )


def _try(program: Program) -> Resolved | None:
    findings = Diagnostics()
    known = add_text_counts(facts(program, findings), findings, sparing=True, too_much=set())
    finished = complete(known, findings)
    return None if findings.found else assemble(finished)


def most_steps(figure: Callable[[int], float], most: float, guess: int = 1000) -> int:
    """The most steps whose figure is within ``most``; 1 if none is."""
    steps, least, above = max(1, guess), 0, None
    for _ in range(TRIES):
        if (value := figure(steps)) <= most:
            least = steps
        else:
            above = steps
        if above == least + 1:
            break
        if value == math.inf:  # no program: it is not known how far from one
            steps = max(least + 1, (least + steps) // 2)
        else:
            steps = max(least + 1, int(steps * (most / value)))
        if above is not None and steps >= above:
            steps = above - 1
    return max(1, least)


def set_steps(program: Program, steps: int, instead_of: Given | None = None) -> Program:
    """The program with this number of steps, shared by its stages as with ``--set steps``."""
    span = instead_of.origin.span if instead_of else None
    return program.with_settings({STEPS: Given(steps, Origin("set", span))})


def _find_equal(program: Program) -> Given | None:
    """The ``steps=equal(...)`` of a program or of what it extends; None without one."""
    setting = program.settings.get(STEPS)
    if setting is None:
        return _find_equal(program.base) if program.base else None
    return setting if isinstance(setting.value, Equal) else None


def _no_step(setting: Given, equal: Equal, first_step: float, diagnostics: Diagnostics) -> None:
    number, unit, text = first_step, "flops", flops_text(first_step)
    if isinstance(equal.budget, Hours) or equal.budget == "time":
        number, unit, text = first_step / SECONDS, "h", duration_text(first_step)
    room = f"steps=equal({1.1 * number:.2g} {unit})"
    message = f"the budget has no room for a step, which takes {text}"
    diagnostics.error(
        "E119", message, setting.origin.span, label=f"{number:.3g} {unit} is the least", help=room
    )
