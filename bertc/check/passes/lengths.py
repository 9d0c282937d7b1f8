"""Lengths in tokens, epochs and words, as steps, and those that have to fit in steps."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.dimensions import CONSTANT
from bertc.check.passes.settings import Checker, has_tasks, type_settings
from bertc.ir.base import Tokens
from bertc.ir.fixes import Rule, argument, fix
from bertc.ir.learning.optimizer import Optimizer
from bertc.ir.learning.schedule import Decay, Epochs, WarmupStableDecay, Words
from bertc.ir.methods.batches import MOST_STAGES
from bertc.ir.methods.ending import MOST_STEPS
from bertc.ir.methods.method import Method, batches_of
from bertc.ir.program import Complete, CompleteSettings, CompleteStage
from bertc.ir.program.resolved import Kept
from bertc.ir.written import DEFAULT_STAGE, Given, Origin, Program, StageGiven

Paces = Sequence[tuple[int, float]]
"""(number of steps, tokens or words of each), one after the other."""
FOREVER = 10**18
Counted = Tokens | Epochs | Words


def in_steps(program: Program, diagnostics: Diagnostics) -> Complete:
    """Turn lengths in tokens, padding included, in epochs and words into steps; type settings.

    ``steps=1G tokens batch=256 seq=512`` becomes ``steps=7629 batch=256 seq=512``. The last step of
    a length in epochs or words is the one that completes it. Warm-up is counted from the start of
    the optimiser's schedule, the decay of ``wsd`` back from its end.
    """
    known = type_settings(program)
    stages = known.stages
    for stage in stages:
        if stage.most_seconds:
            of_methods = (rule for method in stage.methods for rule in method.rules.timed)
            Checker[CompleteSettings](stage, diagnostics).rules(of_methods)
    for stage in stages:
        named = stage.own if program.stages else stage.origins
        if "objective" in named and has_tasks(stage.objective):
            of_methods = (rule for method in stage.methods for rule in method.rules.tasks)
            rules = (rule for rule in (*_OF_TASKS, *of_methods) if rule.at in named)
            Checker[CompleteSettings](stage, diagnostics).rules(rules)
    blocks = program.stages or (StageGiven(DEFAULT_STAGE, {}),)
    changes = tuple(map(_count, stages))
    if any(changes):
        blocks = tuple(map(StageGiven.with_settings, blocks, changes))
        stages = type_settings(replace(program, stages=blocks)).stages
    paces = [_paces(stage, stage.steps) for stage in stages]
    blocks = tuple(
        block.having(_time(block.settings, of_stage))
        for block, of_stage in zip(blocks, paces, strict=True)
    )
    timed, first = _time(program.settings, [*chain(*paces)]), dict(blocks[0].settings)
    if program.stages:
        values = {n: s.value for n, s in timed.items() if s is not CONSTANT.get(n)}
        first = {
            name: first.get(name, program.settings[name])
            for name, value in values.items()
            if isinstance(value, Counted) or (isinstance(value, Method) and value.in_tokens)
        }
        total = sum(stage.steps for stage in stages)
        if all("steps" in stage.own for stage in stages) and total != known.steps:
            first["steps"] = Given(total, Origin("default", source="the sum of its stages"))
    settings = {**timed, **first} if first else timed
    stepped = program.having(settings, blocks if program.stages else ())
    return known if stepped is program else type_settings(stepped)


def shares(stages: Sequence[StageGiven], run: Mapping[str, Given], tokens: bool) -> list[float]:
    """The steps or tokens of each stage, or its epochs or words; ``run`` lacks defaults."""
    settings = {**CONSTANT, **run}
    named: Sequence[CompleteSettings] = type_settings(Program("", settings, tuple(stages))).stages
    for unit in (Epochs, Words):
        if all(isinstance(stage.steps, unit) for stage in named):
            return [getattr(stage.steps, unit.number_unit) for stage in named]
    in_steps = tuple(map(StageGiven.with_settings, stages, map(_count, named)))
    counted = type_settings(Program("", settings, in_steps)).stages

    def share(stage: CompleteStage, length: object) -> float:
        if tokens and isinstance(length, Tokens):
            return length.tokens
        paces = _paces(stage, stage.steps)
        return sum(steps * (pace if tokens else 1) for steps, pace in paces)

    return [share(stage, before.steps) for stage, before in zip(counted, named, strict=True)]


def _count(stage: CompleteSettings) -> dict[str, Given]:
    """The ``steps`` and methods of a stage that are in tokens, in steps."""
    changes, length, tokens = dict[str, Given](), stage.steps, _tokens_of(stage)
    steps = length if isinstance(length, int) else 0
    for method in stage.methods:
        if has_tasks(stage.objective) and method.reads == "text":  # the run says it of its text
            changes[method.setting] = CONSTANT[method.setting]
        elif (timed := method.over_steps(stage.batch, stage.seq, steps, tokens)) is not method:
            changes[method.setting] = Given(timed, stage.origins[method.setting])
    if changes:
        stage = stage.model_copy(update={n: setting.value for n, setting in changes.items()})
    if tokens is not None:
        to = round if isinstance(length, Tokens) else reaching
        steps = max(1, steps_at(tokens, _paces(stage, FOREVER), to)) if tokens else MOST_STEPS
        changes["steps"] = Given(steps, stage.origins["steps"])
    paces = _paces(stage, steps)
    for method in stage.methods:
        if method.in_tokens:
            counted = method.in_steps(lambda tokens: steps_at(tokens.tokens, paces))
            changes[method.setting] = Given(counted, stage.origins[method.setting])
    return changes


def _paces(stage: CompleteSettings, steps: int) -> Paces:
    batches = batches_of(stage.methods, stage.batch, steps)
    return [(part, rows * stage.seq) for rows, part in batches]


def _tokens_of(stage: CompleteSettings) -> float | None:
    """The length of a stage in tokens; None if it is in steps, 0 if it is not known."""
    match stage.steps:
        case Tokens(tokens=tokens):
            return tokens
        case Epochs(epochs=epochs):
            return epochs * stage.epoch_rows * stage.seq
        case Words(words=words):
            return words * stage.seq / stage.row_words if stage.row_words else 0
        case _:
            return None


def reaching(steps: float) -> int:
    """The whole steps that reach a fraction of one, but for rounding."""
    return math.ceil(steps - 1e-9)


def steps_at(amount: float, paces: Paces, to: Callable[[float], int] = round) -> int:
    """The steps to an amount, of which each step of a pace has as much as that says."""
    unread, done = amount, 0
    for steps, per_step in paces[:-1]:
        if unread < steps * per_step:
            return done + to(unread / per_step)
        unread, done = unread - steps * per_step, done + steps
    return done + to(unread / paces[-1][1])


def _time(settings: Mapping[str, Given], paces: Paces) -> Mapping[str, Given]:
    if "optimizer" not in settings:
        return settings
    setting = settings["optimizer"]
    optimizer: Optimizer = setting.value
    schedule, changed = optimizer.schedule, dict[str, Any]()
    if isinstance(optimizer.warmup, Tokens):
        changed["warmup"] = steps_at(optimizer.warmup.tokens, paces)
    if isinstance(schedule, Decay) and isinstance(schedule.over, Tokens):
        over = steps_at(schedule.over.tokens, paces)
        changed["schedule"] = schedule.model_copy(update={"over": over})
    if isinstance(schedule, WarmupStableDecay) and isinstance(schedule.decay, Tokens):
        decay = steps_at(schedule.decay.tokens, paces[::-1])
        changed["schedule"] = schedule.model_copy(update={"decay": decay})
    if not changed:
        return settings
    return {**settings, "optimizer": replace(setting, value=optimizer.model_copy(update=changed))}


_OF_TASKS: tuple[Rule[CompleteSettings], ...] = (
    Rule("E327", "steps", lambda s: isinstance(s.steps, Counted),
         "steps of a task are not counted in text: its rows are as long as its examples",
         way=lambda s: {"help": "epochs=3", "fix": fix(s.origins["steps"], "epochs=3")}),
)  # fmt: skip
"""Lengths that a task, whose rows vary, does not have."""


def check_lengths(check: Checker[CompleteStage], program: Complete) -> None:
    """Report warm-ups, decays and methods that do not fit in the steps there are."""
    stage, optimizer = check.settings, check.settings.optimizer
    steps = stage.steps if "optimizer" in stage.own else program.total_steps
    length = optimizer.schedule_steps(steps)
    warmup, decay = optimizer.warmup_steps(length), optimizer.decay_steps(length)
    origin, also = stage.origins["optimizer"], ("steps", f"steps = {steps}")
    if warmup > length:
        message = f"warm-up takes {warmup} steps, but the schedule has {length}"
        way = argument("optimizer", origin, "warmup", "1%")
        check.report("E209", message, ("optimizer", "steps"), also=also, way=way)
    elif warmup + decay > length:
        name = "decay" if isinstance(optimizer.schedule, WarmupStableDecay) else "cooldown"
        check.report(
            "E325",
            f"the {name} takes {decay} steps, but warm-up leaves {length - warmup} of {length}",
            ("optimizer", "steps"),
            also=also,
            way=argument("optimizer", origin, name, str(length - warmup), ("schedule",)),
        )
    check.rules(rule for method in stage.methods for rule in method.rules.stage)


def list_checkpoints(program: Complete) -> tuple[Kept, ...]:
    """The checkpoints that stay, each with the step that reaches its words."""
    if not program.save_at:
        return ()
    paces = [
        (steps, rows * stage.row_words)
        for stage in program.stages
        for rows, steps in batches_of(stage.methods, stage.batch, stage.steps)
    ]
    last = max((number for number, (_, words) in enumerate(paces, 1) if words), default=0)
    paces = paces[:last] or [(0, 1e-9)]
    return tuple(
        Kept(step=steps_at(point.words, paces, reaching), words=point.words)
        if isinstance(point, Words)
        else Kept(step=point)
        for point in program.save_at
    )


def check_kept(program: Complete, diagnostics: Diagnostics) -> None:
    """Report a checkpoint that stays after the end of the run."""
    last = max((checkpoint.step for checkpoint in list_checkpoints(program)), default=0)
    if last > program.total_steps:
        says = f"save_at names step {last:,}, by words or not, and the run ends before"
        also = "steps", f"steps = {program.total_steps}"
        help = "leave the last out, or a longer run"
        Checker(program, diagnostics).report("E333", says, "save_at", also=also, help=help)


def check_sizes(program: Complete, diagnostics: Diagnostics) -> None:
    """Report more sizes of batches than a run may have stages, each of which is one."""
    stages = program.stages
    sizes = [len(batches_of(stage.methods, stage.batch, stage.steps)) for stage in stages]
    if sum(sizes) > MOST_STAGES:
        most = stages[sizes.index(max(sizes))]
        says = f"stages and the sizes of their batches are more than {MOST_STAGES}"
        also, help = ("batch", f"batch = {most.batch}"), "batch_warmup=none"
        Checker(most, diagnostics).report("E328", says, "batch_warmup", also=also, help=help)
