"""Several processes: memory per device, and the messages between them.

A ring moves (n - 1) / n of a tensor for an all-gather or a reduce-scatter, twice that for an
all-reduce. Several machines do it in two levels: within each, then each device for its part
between them.
"""

from collections.abc import Iterable, Iterator
from math import ceil, log2
from typing import NamedTuple

from bertc.cost.figures import FP32, DeviceBudget, Execution, Memory, Parameters, Spread
from bertc.cost.machines.device import Device
from bertc.cost.memory import USABLE, fit_of, stage_memory, whole_step
from bertc.cost.parameters import count, state_bytes
from bertc.cost.planning.plan import Fit
from bertc.cost.planning.world import ALONE, SHARD_ABOVE, Layout, World, refuse_too_many
from bertc.cost.spent import ByPart
from bertc.ir.network.body_node import count_unshared
from bertc.ir.program import Resolved, Stage


def layout_on(resolved: Resolved, memory_bytes: int, world: World) -> Layout:
    """Distribute weights, gradients and optimiser state over devices of ``memory_bytes``."""
    if world.size == 1:
        return ALONE
    refuse_too_many(resolved, world)
    if (strategy := resolved.run.strategy) != "auto":
        return Layout(world, strategy, f"{strategy} on {world.size} processes, as set")
    # Networks grow.
    counts = ((stage, count(stage, resolved.terms())) for stage in resolved.stages)
    most = max(FP32 * (n.total + n.trained) + state_bytes(s, n.total) for s, n in counts)
    strategy, more = "ddp", ""
    if (fraction := most / memory_bytes) > SHARD_ABOVE:
        strategy = "hsdp" if 1 < world.per_host < world.size else "fsdp"
        more = f", more than {SHARD_ABOVE:.0%}"
    state = f"weights, gradients and moments take {fraction:.0%} of a device{more}"
    return Layout(world, strategy, f"{strategy} on {world.size} processes: {state}")


def process_memory(
    stage: Stage, parameters: Parameters, budget: DeviceBudget, layout: Layout
) -> Memory:
    """Memory of one stage in the process with the most examples."""
    share, sizes = _own(stage, layout), _split(stage, parameters, budget, layout)
    memory = stage_memory(share, parameters, sizes.wider(budget))
    return memory._replace(
        weights_bytes=sizes.weights, optimizer_bytes=sizes.state,
        methods_bytes=memory.methods_bytes // layout.shards,
        peak_bytes=memory.peak_bytes - sizes.spared,
    )  # fmt: skip


def process_fit(stage: Stage, parameters: Parameters, budget: DeviceBudget, layout: Layout) -> Fit:
    """The largest micro-batch of one stage in the process with the most examples."""
    sizes = _split(stage, parameters, budget, layout)
    return fit_of(whole_step(_own(stage, layout), parameters, sizes.wider(budget)))


class _Held(NamedTuple):
    """Bytes of weights and optimiser state in one process, and bytes that sharding spares it."""

    weights: int
    state: int
    spared: int

    def wider(self, budget: DeviceBudget) -> DeviceBudget:
        """Add the spared bytes to the device's memory."""
        spared = int(self.spared / USABLE[budget.execution.device])
        return budget._replace(memory_bytes=budget.memory_bytes + spared)


def _own(stage: Stage, layout: Layout) -> Stage:
    share = layout.world.share(stage.batch)
    if share == stage.batch:
        return stage
    return stage.model_copy(update={"batch": share, "microbatch": min(stage.microbatch, share)})


def _split(stage: Stage, parameters: Parameters, budget: DeviceBudget, layout: Layout) -> _Held:
    """Bytes per process; sharded, two layers and all weights outside a layer's own are gathered."""
    total = parameters.total
    state = state_bytes(stage, total)
    if not layout.sharded:
        return _Held(FP32 * total, state, 0)
    of_layers = count_unshared(stage.encoder)
    shared = parameters.layers - sum(of_layers)
    # Other networks are sharded too; the two gathered layers are assumed to be the main encoder's.
    outside = ("embeddings", "pooler", "head")
    inside = (count for part, count in parameters.by_part.items() if part not in outside)
    cut = sum(inside) - shared
    gathered = budget.execution.value_bytes * min(cut, 2 * max(of_layers))
    weights = FP32 * (total // layout.shards + total - cut) + gathered
    cut_state = state // layout.shards
    return _Held(weights, cut_state, FP32 * total + state - weights - cut_state)


LINK_SHARE = 0.8
"""Assumed share of a link's nominal bandwidth that large messages reach."""
HOP_SECONDS, NETWORK_HOP_SECONDS = 3.4e-6, 9.6e-6
"""Latency of a hop by NVLink and by network (NCCL, src/graph/tuning.cc: hwLat of Ring, Simple).

Between machines there are as many as a tree has, which NCCL picks where a ring takes longer."""
FORWARD, BACKWARD = 1 / 3, 2 / 3
"""Shares of the time of a micro-batch."""


class Links(NamedTuple):
    """Machines, devices in each, and rates from device to device in bytes a second."""

    machines: int
    per_host: int
    link_bytes: float
    network_bytes: float

    def seconds_inside(self, size_bytes: float) -> float:
        """Seconds to gather a tensor within a machine, or to sum and scatter it."""
        neighbours, rate = self.per_host - 1, LINK_SHARE * self.link_bytes
        return neighbours / self.per_host * size_bytes / rate + neighbours * HOP_SECONDS

    def seconds_between(self, size_bytes: float) -> float:
        """The same between machines, for the part that each device has of a tensor."""
        moved = (self.machines - 1) / self.machines * size_bytes / self.per_host
        hops = ceil(log2(self.machines))
        return moved / (LINK_SHARE * self.network_bytes) + hops * NETWORK_HOP_SECONDS


def not_hidden(work: Iterable[tuple[float, float]]) -> float:
    """Seconds of messages after the last computing; ``work``: seconds of computing, of a message.

    A message starts when its computing is done and the message before has arrived. Read backward
    it is the wait for what has to arrive before each computing.
    """
    done = sent = 0.0
    for computing, message in work:
        done += computing
        sent = max(sent, done) + message
    return sent - done


def estimate_spread(
    stage: Stage,
    trained: Parameters,
    step: ByPart,
    microbatches: float,
    how: Execution,
    layout: Layout,
    device: Device,
) -> Spread:
    """The devices of a run, with the messages of a step whose parts take ``step``.

    Heads, layers and embeddings are computed backward in this order. Weights that layers share
    have their gradients last, with the token table; so have heads that are sharded.
    """
    world, depth = layout.world, stage.encoder.depth
    network = min(device.link_bytes, device.network_bytes)
    links = Links(world.size // world.per_host, world.per_host, device.link_bytes, network)
    hides = device.kind != "cpu"  # there messages and computing share the cores
    spent = {part: hides * seconds.seconds / microbatches for part, seconds in step.items()}
    apart = ("head", "embeddings", "teacher", "optimiser", "loader")
    inside = sum(seconds for part, seconds in spent.items() if part not in apart)
    layers = min(sum(count_unshared(stage.encoder)), trained.layers) + trained.generator
    if trained.untrained and not layout.sharded:
        layers = trained.by_part["adapter"]
    heads = 0 if layout.sharded else trained.heads
    total = trained.total if layout.sharded else trained.trained
    seconds = [spent["head"], *[inside / depth] * depth, spent["embeddings"]]
    weights = [heads, *[layers / depth] * depth, total - heads - layers]
    if layout.sharded:
        talk = _sharded_seconds(seconds, weights, ceil(microbatches), how, layout, links)
    else:
        work = [
            (s, 2 * (links.seconds_inside(n) + links.seconds_between(n)))
            for s, n in _buckets(seconds, weights)
        ]
        talk = sum(message for _, message in work), not_hidden(work)
    return Spread(world.size, world.per_host, layout.strategy, *talk)


def _buckets(seconds: list[float], weights: list[float]) -> Iterator[tuple[float, float]]:
    """Seconds of backward until each of DDP's buckets is full (bucket_cap_mb), and its bytes."""
    passed = size_bytes = 0.0
    for place, (computing, number) in enumerate(zip(seconds, weights, strict=True), 1):
        passed += BACKWARD * computing
        size_bytes += FP32 * number
        if size_bytes >= 25 * 2**20 or place == len(weights):
            yield passed, size_bytes
            passed = size_bytes = 0.0


def _sharded_seconds(
    seconds: list[float],
    weights: list[float],
    microbatches: int,
    how: Execution,
    layout: Layout,
    links: Links,
) -> tuple[float, float]:
    """Seconds of messages about sharded weights, and those not hidden.

    Weights are gathered for forward, those of layers for backward too, in every micro-batch;
    gradients are summed once.
    """
    copied = layout.strategy == "hsdp"
    sizes = [FP32 * number for number in weights]
    computed = [*(how.value_bytes * number for number in weights[:-1]), sizes[-1]]
    gathers = [links.seconds_inside(n) + (not copied) * links.seconds_between(n) for n in computed]
    reduces = [links.seconds_inside(n) + (1 + copied) * links.seconds_between(n) for n in sizes]
    behind = [BACKWARD * computing for computing in seconds]
    forward = not_hidden(zip((FORWARD * computing for computing in seconds), gathers, strict=True))
    again = (0.0, *gathers[-2::-1])
    backward = not_hidden(zip(behind[::-1], again, strict=True))
    # The last backward sends gradients on the same links.
    both = sum(again) + sum(reduces) - sum(behind) - backward
    last = max(both, not_hidden(zip(behind, reduces, strict=True)))
    total = microbatches * (sum(gathers) + sum(again)) + sum(reduces)
    return total, microbatches * (forward + backward) + last
