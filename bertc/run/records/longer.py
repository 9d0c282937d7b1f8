"""Settings that may change on resume: more steps, and how the run fits its devices."""

from collections.abc import Sequence

from bertc.base.diagnostics import ResumeRefusedError, UsageError, listed
from bertc.cost.planning.schedules import rate
from bertc.ir.program import Resolved
from bertc.ir.program.reading import place_methods
from bertc.ir.program.resolved import drop_places
from bertc.ir.program.settings import FREE
from bertc.lang import load

RATES_COMPARED = 1000
"""Most steps at which learning rates are compared: schedules that differ do so at many."""


def with_settings(resolved: Resolved, overrides: Sequence[str]) -> Resolved:
    """The program of a run with settings changed for resuming it."""
    programs = load("", overrides)
    if len(programs) > 1:
        raise UsageError("a run is resumed with one value per setting", help="leave out the list")
    settings = {name: written.value for name, written in programs[0].settings.items()}
    text = drop_places(settings.get("data", ()))
    is_moved = any(drop_places(stage.data) == text for stage in resolved.stages)
    fixed = [n for n in settings if n not in ("steps", *FREE, *["data"] * is_moved)]
    if fixed:
        raise ResumeRefusedError(
            f"{listed(fixed)} cannot change when a run is resumed",
            help=f"leave {listed(fixed)} out; {listed(FREE)} may change, "
            "steps where the schedule does not follow from them, and where prepared text is",
        )
    if is_moved:
        moved = settings["data"]
        resolved = resolved.with_data(lambda data: moved if drop_places(data) == text else data)
    if not isinstance(settings.get("steps", 0), int):
        raise UsageError("a run is resumed to a number of steps", help="steps=10k")
    if "steps" in settings:
        resolved = longer(resolved, settings["steps"])
    return resolved.with_free({name: settings[name] for name in FREE if name in settings})


def longer(old: Resolved, steps: int) -> Resolved:
    """The program with ``steps`` steps, its last stage longer or shorter."""
    *before, last = old.stages
    stage_steps = last.steps + steps - old.steps
    total = last.optimizer.schedule_steps(stage_steps if last.schedule_start else steps)
    warmup = last.optimizer.warmup_steps(total)
    planned = {"steps": stage_steps, "schedule_steps": total, "warmup_steps": warmup}
    last = place_methods(last.model_copy(update=planned))
    return old.model_copy(update={"stages": (*before, last)})


def why_not_longer(old: Resolved, new: Resolved) -> str:
    """The reason why steps done under ``old`` are no first steps of ``new``; "" if they are."""
    if len(old.stages) > 1:
        return "its stages share out its steps"
    stage, new_stage = old.stages[0], new.stages[0]
    if reason := next((method.why_final for method in stage.methods if method.why_final), ""):
        return reason
    compared = (*range(0, old.steps, max(1, old.steps // RATES_COMPARED)), old.steps - 1)
    if any(rate(stage, step) != rate(new_stage, step) for step in compared):
        kind = stage.optimizer.schedule.kind
        warmup = " and a warm-up that is a part of them" * isinstance(stage.optimizer.warmup, float)
        return f"its learning rate is made for {old.steps:,} steps (schedule={kind}{warmup})"
    for before, after in zip(stage.methods, new_stage.methods, strict=False):
        lengths = (before, stage.steps), (after, new_stage.steps)
        if any(
            len({method.extent(step, steps) for method, steps in lengths}) > 1 for step in compared
        ):
            return f"its {before.setting} is made for {old.steps:,} steps ({before.text})"
    return ""
