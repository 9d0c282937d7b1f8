"""What one of several processes holds and waits for: memory a device, and talk between devices."""

from dataclasses import replace

from bertc.estimate.devices import Device
from bertc.estimate.figures import Memory, Parameters
from bertc.estimate.memory import FP32, OPTIMIZER_BYTES, USABLE, Room, stage_memory
from bertc.ir.encoder import Encoder
from bertc.ir.resolved import Resolved, Stage
from bertc.passes.world import Layout, World, lay_out

STATE_BYTES = 2 * FP32 + OPTIMIZER_BYTES
"""A weight with its gradient and moments."""
NETWORK_BYTES = 50e9
"""A second, each way, between machines, for each device: InfiniBand NDR, 400 Gb/s."""
LINK_SHARE = 0.8
"""Of what a link promises, what large messages are assumed to get."""
TALK_SOURCE = (
    "Messages: fp32 in rings, at 0.8 of NVLink or PCIe within a machine of up to 8 devices and of\n"
    "400 Gb/s a device between machines, none of it hidden behind computing."
)


def layout_on(resolved: Resolved, total: int, memory_bytes: int, world: World) -> Layout:
    """How the state of ``total`` weights lies on devices of ``memory_bytes``.

    Raises:
        UsageError: if there are more processes than examples in a batch.
    """
    return lay_out(resolved, world, total * STATE_BYTES, memory_bytes)


def process_memory(
    stage: Stage, encoder: Encoder, parameters: Parameters, room: Room, layout: Layout
) -> Memory:
    """One stage in the process with the most examples; ``parameters`` are those of the run."""
    share = layout.world.share(stage.batch)
    own = stage.model_copy(
        update={"batch": share, "microbatch": min(stage.microbatch, share)},
    )
    if not layout.sharded:
        return stage_memory(own, encoder, parameters, room)
    once = _sharded(own, encoder, parameters, room, layout, accumulating=False)
    if once.microbatch == share:
        return once
    return _sharded(own, encoder, parameters, room, layout, accumulating=True)


def _sharded(
    stage: Stage,
    encoder: Encoder,
    parameters: Parameters,
    room: Room,
    layout: Layout,
    accumulating: bool,
) -> Memory:
    """Memory where weights, gradients and moments lie in parts.

    Whole are the weights outside the layers and of two parts of a layer, one in use and one on its
    way; so are their gradients, and all gradients while micro-batches add up.
    """
    total, parts = parameters.total, len({*encoder.attention_owner}) + len({*encoder.ffn_owner})
    whole = total - parameters.layers + min(parameters.layers, 2 * parameters.layers // parts)
    held = total // layout.shards
    weights = FP32 * (held + whole)
    gradients = FP32 * (held + (total if accumulating else whole))
    optimizer = OPTIMIZER_BYTES * held
    spared = STATE_BYTES * total - weights - gradients - optimizer
    # What other devices hold is room here.
    wider = replace(room, memory_bytes=room.memory_bytes + int(spared / USABLE))
    memory = stage_memory(stage, encoder, parameters, wider)
    return memory.model_copy(
        update={
            "weights_bytes": weights,
            "gradients_bytes": gradients,
            "optimizer_bytes": optimizer,
            "peak_bytes": memory.peak_bytes - spared,
        }
    )


def step_communication(
    stage: Stage, total: int, microbatch: int, layout: Layout, device: Device
) -> float:
    """Seconds a step that the messages about ``total`` weights take by themselves.

    A ring moves (n - 1) / n of a tensor for an all-gather or a reduce-scatter, twice that for an
    all-reduce. Sharded weights are gathered for forward and again for backward of every
    micro-batch; gradients are reduced once.
    """
    world = layout.world
    gathers = 2 * -(-world.share(stage.batch) // microbatch)
    network = min(device.link_bytes, NETWORK_BYTES)
    whole = _ring(total, world.size, device.link_bytes if world.size == world.per_host else network)
    match layout.strategy:
        case "single":
            return 0.0
        case "ddp":
            return 2 * whole
        case "fsdp":
            return (gathers + 1) * whole
        case "hsdp":
            inside = _ring(total, world.per_host, device.link_bytes)
            between = _ring(total // layout.shards, layout.copies, network)
            return (gathers + 1) * inside + 2 * between


def _ring(weights: int, processes: int, link_bytes: float) -> float:
    return (processes - 1) / processes * FP32 * weights / (LINK_SHARE * link_bytes)
