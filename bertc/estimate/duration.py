"""How long a step takes: executed FLOPs over the share of the peak that a device is assumed to get.

The input path, evaluation and saving are not counted. Models too small to fill a large GPU are
slower than this, because launching their kernels takes longer than running them.
"""

from collections.abc import Sequence
from typing import Literal

from bertc.estimate.devices import Device
from bertc.estimate.figures import Time
from bertc.ir.resolved import Stage


def stage_time(
    stage: Stage,
    step_flops: int,
    device: Device,
    precision: Literal["fp32", "bf16"],
    communication: float = 0.0,
) -> Time:
    """One stage on one device; ``step_flops`` as executed, whatever the convention shown.

    ``communication`` is the seconds of a step spent waiting for other devices.
    """
    seconds = step_flops / (device.peak_flops(precision) * device.mfu) + communication
    return Time(
        device=device.name,
        seconds_per_step=seconds,
        seconds_total=seconds * stage.steps,
        assumed_mfu=device.mfu,
    )


def run_time(stages: Sequence[Stage], times: Sequence[Time]) -> Time:
    """The sum over stages, with its mean step."""
    total = sum(time.seconds_total for time in times)
    return Time(
        device=times[0].device,
        seconds_per_step=total / sum(stage.steps for stage in stages),
        seconds_total=total,
        assumed_mfu=times[0].assumed_mfu,
    )
