"""Lengths that have to fit in the steps there are."""

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.lengths import reaching, steps_at
from bertc.check.passes.settings.checker import Checker
from bertc.ir.fixes import Way, argument
from bertc.ir.learning.equal import Words
from bertc.ir.learning.optimizer import WarmupStableDecay
from bertc.ir.methods.batches import MOST_STAGES
from bertc.ir.methods.method import batches_of
from bertc.ir.program.complete import Complete, CompleteStage
from bertc.ir.program.resolved import Kept


def check_lengths(check: Checker[CompleteStage], program: Complete) -> None:
    """Report warm-ups, decays and methods that do not fit in the steps there are."""
    stage = check.settings
    _warmup_fits(check, program)
    check.rules(rule for method in stage.methods for rule in method.rules.stage)


def kept_at(program: Complete) -> tuple[Kept, ...]:
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
        Kept(step=steps_at(at.words, paces, reaching), words=at.words)
        if isinstance(at, Words)
        else Kept(step=at)
        for at in program.save_at
    )


def check_kept(program: Complete, diagnostics: Diagnostics) -> None:
    """Report a checkpoint that stays after the end of the run."""
    last = max((one.step for one in kept_at(program)), default=0)
    if last > program.total_steps:
        says = f"save_at names step {last:,}, by words or not, and the run ends before"
        also = "steps", f"steps = {program.total_steps}"
        help = "leave the last out, or a longer run"
        Checker(program, diagnostics).report("E333", says, "save_at", also=also, help=help)


def check_sizes(program: Complete, diagnostics: Diagnostics) -> None:
    """Report more sizes of batches than a run may have stages, each of which is one."""
    stages = program.stages
    sizes = [len(batches_of(stage.methods, stage.batch, stage.steps)) for stage in stages]
    if sum(sizes) <= MOST_STAGES:
        return
    most, room = stages[sizes.index(max(sizes))], MOST_STAGES // len(stages) - 1
    way: Way = {"help": "batch_warmup=none", "fix": None}
    if room:
        by = str(-(-most.batch // room))
        way = argument("batch_warmup", most.origins["batch_warmup"], "by", by)
    says = f"stages and the sizes of their batches are more than {MOST_STAGES}"
    also = "batch", f"batch = {most.batch}"
    Checker(most, diagnostics).report("E328", says, "batch_warmup", also=also, way=way)


def _warmup_fits(check: Checker[CompleteStage], program: Complete) -> None:
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
        name = "decay" if isinstance(optimizer.schedule, WarmupStableDecay) else "cooldown"
        check.report(
            "E325",
            f"the {name} takes {decay} steps, but warm-up leaves {length - warmup} of {length}",
            ("optimizer", "steps"),
            also=also,
            way=argument("optimizer", origin, name, str(length - warmup), ("schedule",)),
        )
