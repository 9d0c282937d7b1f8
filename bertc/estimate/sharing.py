"""What one of several processes holds and waits for: memory a device, and talk between devices."""

from dataclasses import dataclass, replace

from bertc.estimate.blocks import Room
from bertc.estimate.execution import FP32
from bertc.estimate.figures import Memory, Parameters
from bertc.estimate.machines.device import Device
from bertc.estimate.memory import USABLE, stage_fit, stage_memory
from bertc.estimate.memory_points import MOMENTS_BYTES
from bertc.ir.program.resolved import Resolved, Stage
from bertc.planning.plan import Fit
from bertc.planning.world import Layout, World, lay_out

STATE_BYTES = 2 * FP32 + MOMENTS_BYTES
"""A weight with its gradient and moments."""
NETWORK_BYTES = 50e9
"""A second, each way, between machines, for each device: InfiniBand NDR, 400 Gb/s."""
LINK_SHARE = 0.8
"""Of what a link promises, what large messages are assumed to get."""
TALK_SOURCE = (
    "Messages: fp32 in rings, at 0.8 of NVLink, PCIe or main memory within a machine of up to 8\n"
    "devices and of 400 Gb/s a device between machines, none of it hidden behind computing."
)


def layout_on(resolved: Resolved, total: int, memory_bytes: int, world: World) -> Layout:
    """How the state of ``total`` weights lies on devices of ``memory_bytes``.

    Raises:
        UsageError: if there are more processes than examples in a batch.
    """
    return lay_out(resolved, world, total * STATE_BYTES, memory_bytes)


def process_memory(stage: Stage, parameters: Parameters, room: Room, layout: Layout) -> Memory:
    """One stage in the process with the most examples; ``parameters`` are those of the run."""
    own, held = _own(stage, layout), _held(stage, parameters, layout)
    memory = stage_memory(own, parameters, held.wider(room))
    return memory.model_copy(
        update={
            "weights_bytes": held.weights,
            "optimizer_bytes": held.moments,
            "peak_bytes": memory.peak_bytes - held.spared,
        }
    )


def process_fit(stage: Stage, parameters: Parameters, room: Room, layout: Layout) -> Fit:
    """What of one stage fits in the process with the most examples."""
    held = _held(stage, parameters, layout)
    return stage_fit(_own(stage, layout), parameters, held.wider(room))


@dataclass(frozen=True)
class _Held:
    """Bytes of weights and moments in one process, and what other processes hold in its stead.

    Gradients are counted whole: that they are while micro-batches add up, and at most otherwise.
    """

    weights: int
    moments: int
    spared: int

    def wider(self, room: Room) -> Room:
        """What other devices hold is room here."""
        spared = int(self.spared / USABLE[room.device])
        return replace(room, memory_bytes=room.memory_bytes + spared)


def _own(stage: Stage, layout: Layout) -> Stage:
    share = layout.world.share(stage.batch)
    return stage.model_copy(
        update={"batch": share, "microbatch": min(stage.microbatch, share)},
    )


def _held(stage: Stage, parameters: Parameters, layout: Layout) -> _Held:
    """Sharded, weights outside the layers are whole while a step runs, and two parts of a layer.

    One of them is in use and one on its way.
    """
    total = parameters.total
    if not layout.sharded:
        return _Held(FP32 * total, MOMENTS_BYTES * total, 0)
    parts = stage.encoder.num_parts
    # Those of other networks are cut too; the two in use are taken to be the encoder's.
    cut = sum(parameters.by_part.get(part, 0) for part in ("attention", "ffn", "norm"))
    whole = total - cut + min(cut, 2 * parameters.layers // parts)
    weights = FP32 * (total // layout.shards + whole)
    moments = MOMENTS_BYTES * (total // layout.shards)
    return _Held(weights, moments, (FP32 + MOMENTS_BYTES) * total - weights - moments)


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
