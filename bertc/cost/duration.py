"""Seconds per step and in total on a device.

On a CPU the start cost of each operation adds to its time. A GPU runs while its host launches the
next kernels, so a step takes the larger of the two. Evaluation and checkpoints are excluded.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

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


def stage_time(
    stage: Stage,
    flops: int,
    step: StepTime,
    device: Device,
    precision: Literal["fp32", "bf16"],
    communication: float = 0.0,
) -> Time:
    """Time of one stage on one device; the assumed MFU counts the useful ``flops`` of a step.

    ``communication`` is the seconds per step spent waiting for other devices.
    """
    seconds = step.seconds + communication
    return Time(
        device=device.name,
        seconds_per_step=seconds,
        seconds_total=seconds * stage.steps,
        assumed_mfu=flops / (seconds * device.peak_flops(precision)),
        product_share=device.product_share,
        source=device.source,
        within=device.time_within,
    )


def run_time(stages: Sequence[Stage], times: Sequence[Time], device: Device) -> Time:
    """Sum of the stages' times, with the mean step and the mean share of peak."""
    total = sum(time.seconds_total for time in times)
    step = total / sum(stage.steps for stage in stages)
    return Time(
        device=device.name,
        seconds_per_step=step,
        seconds_total=total,
        assumed_mfu=sum(time.assumed_mfu * time.seconds_total for time in times) / total,
        product_share=device.product_share,
        source=device.source,
        within=device.time_within,
    )
