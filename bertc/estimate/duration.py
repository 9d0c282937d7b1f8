"""How long a step takes, in closed form from what a device was measured or assumed to do.

Products run at a share of the peak. Beside them time goes into every byte that forward keeps for
backward (it is written, read again, and its gradient made), and into every weight that a
micro-batch applies (cast, and its gradient added) or an update moves. Narrow models do more of that
for each product, so they reach a lower share of the peak. While a GPU works its host launches the
kernels to come; a step takes as long as the slower of the two. The input path, evaluation and
saving are not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bertc.estimate.device import Device
from bertc.estimate.figures import Time
from bertc.ir.program.resolved import Stage

LAUNCHES_OF_A_LAYER, LAUNCHES_AROUND_LAYERS, LAUNCHES_OF_A_STEP = 97, 143, 120
"""Kernels of forward and backward, of each layer and of embeddings, heads and losses, as torch
dispatches them for bert-mini and bert-base without a compiler; and of masking and the update."""


@dataclass(frozen=True)
class Work:
    """What one step does.

    ``flops`` are those of products, ``recomputed_flops`` what runs a second time and is no useful
    work; ``kept_bytes`` what all forward passes keep; ``weights`` how often a weight is applied by
    a micro-batch or moved by the update; ``launches`` the kernels that a host asks for.
    """

    flops: int
    recomputed_flops: int
    kept_bytes: int
    weights: int
    launches: int


def launches(stage: Stage, microbatches: int) -> int:
    """Kernels of a step whose batch is cut into so many parts, forward and backward.

    A compiled step has a third of them; its guards and wrappers take the host as long.
    """
    networks = [network for network in stage.networks() if network.terms]
    layers = sum(len(network.encoder.layers) for network in networks)
    each = LAUNCHES_OF_A_LAYER * layers + LAUNCHES_AROUND_LAYERS * len(networks)
    return microbatches * each + LAUNCHES_OF_A_STEP


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
    products = (work.flops + work.recomputed_flops) / (peak * device.product_share)
    beside = device.moving_seconds(work.kept_bytes * again, work.weights)
    seconds = max(products + beside, work.launches * again * device.launch_seconds)
    seconds += communication
    return Time(
        device=device.name,
        seconds_per_step=seconds,
        seconds_total=seconds * stage.steps,
        assumed_mfu=work.flops / (seconds * peak),
        product_share=device.product_share,
        source=device.source,
    )


def run_time(stages: Sequence[Stage], times: Sequence[Time]) -> Time:
    """The sum over stages, with its mean step and its mean share of the peak."""
    total = sum(time.seconds_total for time in times)
    return Time(
        device=times[0].device,
        seconds_per_step=total / sum(stage.steps for stage in stages),
        seconds_total=total,
        assumed_mfu=sum(time.assumed_mfu * time.seconds_total for time in times) / total,
        product_share=times[0].product_share,
        source=times[0].source,
    )
