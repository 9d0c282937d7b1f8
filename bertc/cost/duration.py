"""Seconds per step and in total on a device.

On a CPU the start cost of each operation adds to its time. A GPU runs while its host launches the
next kernels, so a step takes the larger of the two. Evaluation and checkpoints are excluded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bertc.cost.figures import Time
from bertc.cost.machines.device import Device
from bertc.cost.spent import ByPart, Spent, total
from bertc.ir.program.stage import Stage


class StepTime(NamedTuple):
    """Seconds of one step by part; ``starts`` is launch time beyond the device's own work."""

    parts: ByPart
    seconds: float


def step_time(parts: ByPart, device: Device) -> StepTime:
    """Combine the parts of a step; launch time hidden behind device work costs nothing."""
    spent = total(parts)
    if device.kind == "cpu":
        return StepTime(parts, spent.seconds)
    working = spent.arithmetic + spent.memory
    waiting = max(0.0, spent.starts - working) / (spent.starts or 1.0)
    shown = {
        part: Spent(seconds.arithmetic, seconds.memory, seconds.starts * waiting)
        for part, seconds in parts.items()
    }
    return StepTime(shown, max(working, spent.starts))


def time_on(device: Device, per_step: float, total: float, mfu: float) -> Time:
    """Seconds on a device; ``mfu`` is the share of its peak that useful FLOPs have."""
    return Time(
        device=device.name,
        seconds_per_step=per_step,
        seconds_total=total,
        assumed_mfu=mfu,
        product_share=device.product_share,
        source=device.source,
        within=device.time_within,
    )


def run_time(stages: Sequence[Stage], times: Sequence[Time], device: Device) -> Time:
    """Sum of the stages' times, with the mean step and the mean share of peak."""
    total = sum(time.seconds_total for time in times)
    mfu = sum(time.assumed_mfu * time.seconds_total for time in times) / total
    return time_on(device, total / sum(stage.steps for stage in stages), total, mfu)
