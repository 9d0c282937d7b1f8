"""The cost of a run, as estimated and as measured."""

from collections.abc import Callable, Sequence
from os.path import exists
from typing import Any

from bertc import Estimate, UsageError, estimate
from bertc.lab.report.markup import remark
from bertc.lab.report.page import Part
from bertc.lab.results.runs import Run
from bertc.lab_api import RunFolder, Table, units

ELSEWHERE = "h200"
"""The device of the estimate where nothing says which device the run had."""
WENT = {
    "steps": "training steps", "batches": "waiting for batches", "evaluations": "evaluations",
    "checkpoints": "saving",
}  # fmt: skip
"""Uses of the time of the first process."""


def estimated_cost(folder: RunFolder) -> Estimate:
    """The estimate of a run's program on the kind of device that it had."""
    resolved, lock = folder.read_resolved(), folder.read_lock()
    if lock is None:
        return estimate(resolved, ELSEWHERE)
    plan, run = lock.plan, resolved.run.model_copy(update={"precision": lock.plan.precision})
    stages = tuple(
        stage.model_copy(update={"microbatch": size})
        for stage, size in zip(resolved.stages, plan.microbatches, strict=True)
    )
    planned = resolved.model_copy(update={"stages": stages, "run": run})
    name = "cpu" if plan.device == "cpu" else str(lock.machine.get("name", ELSEWHERE))
    try:
        return estimate(planned, name, devices=plan.processes)
    except UsageError:  # a device without known figures
        return estimate(planned, ELSEWHERE, devices=plan.processes)


def cost_section(folder: RunFolder, run: Run) -> Sequence[Part]:
    """A table of estimates and measurements, and what the time went to."""
    lock, cost, usage = folder.read_lock(), estimated_cost(folder), folder.read_spent()
    seconds = {use: sum(line.seconds.get(use, 0.0) for line in usage) for use in WENT}
    peak_bytes = max((line.memory_bytes for line in usage), default=0)
    memory = _row("memory at its peak", cost.memory.peak_bytes, peak_bytes, units.bytes_text)
    if lock is None or lock.plan.device == "cpu":  # that has Python, torch and the data
        memory = (*memory[:3], "")
    rows = [
        _row("parameters", cost.parameters.total, run.parameters, "{:,}".format),
        *_work(cost, run, seconds["steps"], sum(line.steps for line in usage)),
        *(
            (WENT[use], "", f"{units.duration_text(s)}, {s / sum(seconds.values()):.0%}", "")
            for use, s in seconds.items()
            if s
        ),
        memory,
    ]
    files = (getattr(task, "train", "") for task in run.resolved.stages[-1].tasks)
    lost = [f for f in files if isinstance(f, str) and f and "://" not in f and not exists(f)]
    full = "".join(f"{file} is not there from here, and its rows count as full. " for file in lost)
    return (
        Table(("", "estimated", "measured", "difference"), rows),
        remark(
            f"{full}Estimated for {cost.time.device}. {cost.time.basis} Memory measured is that of "
            "the first process as a whole, on a CPU with Python, torch and the data."
        ),
    )


def _row(
    title: str, cost: float, measured: float, text: Callable[[Any], str] = units.duration_text
) -> tuple[str, ...]:
    """A measured value, and how it differs from the estimated one."""
    change = (text(measured), units.change_text(measured, cost)) if measured else ("", "")
    return (title, text(cost), *change)


def _work(cost: Estimate, run: Run, step_seconds: float, steps_timed: int) -> list[tuple[str, ...]]:
    """Rows of steps, FLOPs and time; ``step_seconds`` are those of ``steps_timed`` steps."""
    done, seconds = run.step, run.seconds
    mean = step_seconds / steps_timed if steps_timed else seconds / done if done else 0.0
    total, planned = cost.time.seconds_total, cost.flops.train_total
    steps = sum(stage.steps for stage in cost.stages)  # by the clock those there is time for
    until = total * done / steps
    rows = [
        ("steps", f"{steps:,}", f"{done:,}", ""),
        (*_row("FLOPs of training", planned, run.flops, units.flops_text)[:3], ""),
        ("a step", cost.time.step_text, *_row("", cost.time.seconds_per_step, mean)[2:]),
        _row(f"time of {done:,} steps", until, seconds),
        _row("FLOP/s", planned / total, run.flops / seconds if seconds else 0.0, units.flops_text),
    ]
    if run.tokens and seconds:
        speed = units.count_text(max(run.tokens.values()) / seconds)
        rows.append(("tokens a second", "", speed, ""))
    return rows
