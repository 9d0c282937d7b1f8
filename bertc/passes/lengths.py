"""Lengths in tokens, as steps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from bertc.diagnostics import Diagnostics
from bertc.ir.base import Tokens
from bertc.ir.learning.average import Ema
from bertc.ir.learning.batch_warmup import FULL_BATCH, RisingBatch
from bertc.ir.learning.optimizer import Decay, Optimizer, WarmupStableDecay
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Given, Origin, Program, StageGiven
from bertc.passes.dimensions import CONSTANT
from bertc.passes.settings.fixes import argument, fix, note, written
from bertc.passes.settings.rules import Checker, Rule
from bertc.passes.settings.stages import DEFAULT_STAGE, has_tasks

Paces = Sequence[tuple[int, int]]
"""(number of steps, tokens of each), one after the other."""
FOREVER = 10**18
WITHOUT_WARMUP = Given(FULL_BATCH, Origin("default", source="bertc"))


def in_steps(program: Program, diagnostics: Diagnostics) -> Program:
    """Turn lengths in tokens into steps.

    ``steps=1G tokens batch=256 seq=512`` becomes ``steps=7629 batch=256 seq=512``. Tokens are those
    that batches have, padding included. Warm-up is counted from the start of the optimiser's
    schedule, the decay of ``wsd`` back from its end, through stages of different batches.
    """
    blocks = program.stages or (StageGiven(DEFAULT_STAGE, {}),)
    for block in blocks:
        _refuse_tasks(block.settings if program.stages else program.settings, diagnostics)
    written = [{**program.settings, **block.settings}["steps"] for block in blocks]
    blocks = tuple(_counted(block, program.settings) for block in blocks)
    every = [{**program.settings, **block.settings} for block in blocks]
    paces = [_paces(settings) for settings in every]
    for given, of_stage in zip(written, paces, strict=True):
        _more_than_a_step(given, of_stage[0][1], diagnostics)
    blocks = tuple(
        replace(block, settings=_timed(block.settings, of_stage))
        for block, of_stage in zip(blocks, paces, strict=True)
    )
    whole = _timed(program.settings, [pace for of_stage in paces for pace in of_stage])
    counted = {name: every[0][name] for name in ("steps", "batch_warmup", "average")}
    if not program.stages:
        return replace(program, settings={**whole, **blocks[0].settings})
    of_tokens = {n: given for n, given in counted.items() if _in_tokens(whole[n].value)}
    if all("steps" in block.settings for block in blocks):
        total = sum(block.settings["steps"].value for block in blocks)
        if total != whole["steps"].value:
            of_tokens["steps"] = Given(total, Origin("default", source="the sum of its stages"))
    return replace(program, settings={**whole, **of_tokens}, stages=blocks)


def _more_than_a_step(given: Given, tokens: int, diagnostics: Diagnostics) -> None:
    """Remark on a length in tokens that is less than the first step reads."""
    if isinstance(given.value, Tokens) and given.value.tokens < tokens:
        diagnostics.remark(
            "R116",
            f"steps = {given.value.tokens:,} tokens is less than one step, which reads {tokens:,}",
            given.origin.span,
            label="one step is done",
            help="steps=1",
            fix=fix(given.origin, "steps=1"),
        )


def shares(stages: Sequence[StageGiven], run: Mapping[str, Given], tokens: bool) -> list[int]:
    """The steps, or the tokens, of each stage; what ``run`` does not set has its default."""
    settings = {**CONSTANT, **run}

    def share(stage: StageGiven) -> int:
        length = stage.settings["steps"].value
        if tokens and isinstance(length, Tokens):
            return length.tokens
        paces = _paces({**settings, **_counted(stage, settings).settings})
        return sum(steps * (pace if tokens else 1) for steps, pace in paces)

    return [share(stage) for stage in stages]


def _in_tokens(value: Any) -> bool:
    """True of a number of steps, a warm-up of batches, or an average, in tokens."""
    length = value.half_life if isinstance(value, Ema) else getattr(value, "over", value)
    return isinstance(length, Tokens)


def _counted(block: StageGiven, run: Mapping[str, Given]) -> StageGiven:
    """The stage with its ``steps``, ``batch_warmup`` and ``average`` in steps, not in tokens."""
    settings, in_block = {**run, **block.settings}, dict(block.settings)
    batch, seq = settings["batch"].value, settings["seq"].value
    if has_tasks(settings["objective"].value):  # what is told of the run is about its text
        in_block["batch_warmup"] = settings["batch_warmup"] = WITHOUT_WARMUP
    rising = settings["batch_warmup"]
    if _in_tokens(rising.value):
        rows = sum(rising.value.sizes(batch)) / max(1, len(rising.value.sizes(batch)))
        over = max(1, round(rising.value.over.tokens / max(1, rows * seq)))
        rising = replace(rising, value=rising.value.model_copy(update={"over": over}))
        in_block["batch_warmup"] = settings["batch_warmup"] = rising
    if _in_tokens(settings["steps"].value):
        pieces = rising.value.pieces(batch, FOREVER)
        paces = [(steps, rows * seq) for rows, steps in pieces]
        steps = max(1, _steps_of(settings["steps"].value, paces))
        settings["steps"] = in_block["steps"] = replace(settings["steps"], value=steps)
    average = settings["average"]
    if _in_tokens(average.value):
        of_stage = _paces(settings)
        value = average.value.in_steps(lambda tokens: _steps_of(tokens, of_stage))
        in_block["average"] = replace(average, value=value)
    return replace(block, settings=in_block)


def _paces(settings: Mapping[str, Given]) -> Paces:
    seq = settings["seq"].value
    pieces = settings["batch_warmup"].value.pieces(settings["batch"].value, settings["steps"].value)
    return [(steps, rows * seq) for rows, steps in pieces]


def _steps_of(tokens: Tokens, paces: Paces) -> int:
    """The number of steps, to the nearest, that read these tokens."""
    left, done = tokens.tokens, 0
    for steps, each in paces[:-1]:
        if left < steps * each:
            return done + round(left / each)
        left, done = left - steps * each, done + steps
    return done + round(left / paces[-1][1])


def _timed(settings: Mapping[str, Given], paces: Paces) -> Mapping[str, Given]:
    """Settings with the lengths of their optimiser in steps, if there is one in tokens."""
    if "optimizer" not in settings:
        return settings
    given = settings["optimizer"]
    optimizer: Optimizer = given.value
    schedule, changed = optimizer.schedule, dict[str, Any]()
    if isinstance(optimizer.warmup, Tokens):
        changed["warmup"] = _steps_of(optimizer.warmup, paces)
    if isinstance(schedule, Decay) and isinstance(schedule.over, Tokens):
        over = _steps_of(schedule.over, paces)
        changed["schedule"] = schedule.model_copy(update={"over": over})
    if isinstance(schedule, WarmupStableDecay) and isinstance(schedule.decay, Tokens):
        decay = _steps_of(schedule.decay, paces[::-1])
        changed["schedule"] = schedule.model_copy(update={"decay": decay})
    if not changed:
        return settings
    return {**settings, "optimizer": replace(given, value=optimizer.model_copy(update=changed))}


def _refuse_tasks(settings: Mapping[str, Given], diagnostics: Diagnostics) -> None:
    """Report steps in tokens, and growing batches, of a task, whose rows vary."""
    objective = settings.get("objective")
    if objective is None or not has_tasks(objective.value):
        return
    steps, rising = settings.get("steps"), settings.get("batch_warmup", WITHOUT_WARMUP)
    if steps is not None and isinstance(steps.value, Tokens):
        diagnostics.error(
            "E327",
            "steps of a task are not counted in tokens: its rows are as long as its examples",
            steps.origin.span,
            help="epochs=3",
            fix=fix(steps.origin, "epochs=3"),
        )
    average = settings.get("average")
    if average is not None and _in_tokens(average.value):
        diagnostics.error(
            "E327",
            "half_life of a task is not counted in tokens: its rows are as long as its examples",
            average.origin.span,
            **argument("average", average.origin, "half_life", "1%"),
        )
    if rising.value.kind != "none":
        diagnostics.error(
            "E327",
            "batch_warmup is of text: a task learns from batches of one size",
            rising.origin.span,
            help="batch_warmup=none",
            fix=fix(rising.origin, "batch_warmup=none"),
        )


def check_lengths(check: Checker[StageSettings], program: Complete) -> None:
    """Report warm-ups, decays and averages that do not fit in the steps there are."""
    stage = check.settings
    _warmup_fits(check, program)
    check.rules(_OF_AVERAGES)
    if isinstance(stage.batch_warmup, RisingBatch):
        _batch_rises(check, stage.batch_warmup)


_OF_AVERAGES: tuple[Rule[StageSettings], ...] = (
    Rule("E380", "average",
         lambda s: isinstance(s.average, Ema) and not s.average.of_stage(0, s.steps).steps,
         "average = ema: half_life is less than a step",
         also=lambda s: ("steps", f"steps = {s.steps}"),
         way=lambda s: argument("average", s.origins["average"], "half_life", "1")),
    Rule("E381", "average", lambda s: s.average.kept and s.patience and has_tasks(s.objective),
         lambda s: f"patience = {s.patience} ends with the weights of the best evaluation, not "
         "with an average",
         also=("patience", "patience is set here"), instead="average=none"),
)  # fmt: skip


def _warmup_fits(check: Checker[StageSettings], program: Complete) -> None:
    stage, optimizer = check.settings, check.settings.optimizer
    steps = stage.steps if "optimizer" in stage.own else program.total_steps
    length = optimizer.schedule_steps(steps)
    warmup, decay = optimizer.warmup_steps(length), optimizer.decay_steps(length)
    origin, also = stage.origins["optimizer"], ("steps", f"steps = {steps}")
    if warmup > length:
        check.report(
            "E209",
            f"warm-up takes {warmup} steps, but the schedule has {length}",
            ("optimizer", "steps"),
            also=also,
            way=argument("optimizer", origin, "warmup", "1%"),
        )
    elif warmup + decay > length:
        check.report(
            "E325",
            f"the decay takes {decay} steps, but warm-up leaves {length - warmup} of {length}",
            ("optimizer", "steps"),
            also=also,
            way=argument("optimizer", origin, "decay", str(length - warmup), ("schedule",)),
        )


def _batch_rises(check: Checker[StageSettings], rising: RisingBatch) -> None:
    """Check that a batch warm-up begins below the batch, and ends before the stage does."""
    stage, diagnostics = check.settings, check.diagnostics
    batch, steps, rows, over = stage.batch, stage.steps, rising.rows, rising.over
    microbatch = stage.microbatch
    assert isinstance(over, int), "a pass has made it steps"
    if rows >= batch:
        fault, wrong = f"begins with {rows} examples, but batch = {batch}", "batch"
        rows = max(1, microbatch, batch // 8)
    elif over >= steps:
        fault, wrong = f"takes {over} steps, and stage {stage.name} ends after {steps}", "steps"
    elif microbatch and rows % microbatch:
        fault = f"rises by {rows} examples, which is no multiple of microbatch = {microbatch}"
        wrong = "microbatch"
    else:
        return
    over = min(over, max(1, steps // 10))
    setting, instead = "batch_warmup", f"batch_warmup=rising({rows}, {over})"
    if wrong == "microbatch":
        setting, instead = wrong, f"microbatch={gcd(microbatch, rows, batch)}"
    elif rows >= batch or over >= steps:
        instead = "batch_warmup=none"
    place, wrong_place = stage.span("batch_warmup"), stage.span(wrong)
    notes = note(f"{wrong} = {getattr(stage, wrong)}", wrong_place)
    if written(stage.origins[wrong]) and not written(stage.origins["batch_warmup"]):
        place, notes = wrong_place, note("batch_warmup is set here", place)
    diagnostics.error(
        "E328",
        f"batch_warmup {fault}",
        place,
        notes=notes,
        help=instead,
        fix=fix(stage.origins[setting], instead),
    )
