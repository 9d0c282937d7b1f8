"""How long a step takes, in closed form from what a device was measured or assumed to do.

Products run at a share of the peak. Beside them a CPU spends time on every byte that forward keeps
for backward (it is written, read again, and its gradient made), and on every weight that a
micro-batch applies (cast, and its gradient added) or an update moves. Narrow models do more of that
for each product, so they reach a lower share of the peak. The input path, evaluation and saving are
not counted. Models too small to fill a large GPU are slower than this, because launching their
kernels takes longer than running them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bertc.estimate.devices import Device
from bertc.estimate.figures import Time
from bertc.ir.resolved import Stage


@dataclass(frozen=True)
class Work:
    """What one step does.

    ``flops`` are those of products, ``recomputed_flops`` what runs a second time and is no useful
    work; ``kept_bytes`` what all forward passes keep; ``weights`` how often a weight is applied by
    a micro-batch or moved by the update.
    """

    flops: int
    recomputed_flops: int
    kept_bytes: int
    weights: int


def stage_time(
    stage: Stage,
    work: Work,
    device: Device,
    precision: Literal["fp32", "bf16"],
    communication: float = 0.0,
) -> Time:
    """One stage on one device; the assumed MFU counts useful FLOPs alone.

    ``communication`` is the seconds of a step spent waiting for other devices.
    """
    peak = device.peak_flops(precision)
    # Recomputing is a third of forward and backward, in products and in what is beside them.
    again = 1 + work.recomputed_flops / work.flops
    products = (work.flops + work.recomputed_flops) / (peak * device.mfu)
    beside = work.kept_bytes * again * device.kept_seconds + work.weights * device.weight_seconds
    seconds = products + beside + communication
    return Time(
        device=device.name,
        seconds_per_step=seconds,
        seconds_total=seconds * stage.steps,
        assumed_mfu=work.flops / (seconds * peak),
    )


def run_time(stages: Sequence[Stage], times: Sequence[Time]) -> Time:
    """The sum over stages, with its mean step and its mean share of the peak."""
    total = sum(time.seconds_total for time in times)
    return Time(
        device=times[0].device,
        seconds_per_step=total / sum(stage.steps for stage in stages),
        seconds_total=total,
        assumed_mfu=sum(time.assumed_mfu * time.seconds_total for time in times) / total,
    )
