"""Messages between the devices of a run: their seconds, and those that no computing hides.

A ring moves (n - 1) / n of a tensor for an all-gather or a reduce-scatter, twice that for an
all-reduce. Several machines do it in two levels: within each, then each device for its part
between them.
"""

from collections.abc import Iterable, Iterator
from math import ceil, log2
from typing import NamedTuple

from bertc.cost.execution import FP32, Execution
from bertc.cost.figures import Parameters, Spread
from bertc.cost.machines.device import Device
from bertc.cost.planning.world import Layout
from bertc.cost.spent import ByPart
from bertc.ir.network.body_node import unshared
from bertc.ir.program.stage import Stage

LINK_SHARE = 0.8
"""Assumed share of a link's nominal bandwidth that large messages reach."""
HOP_SECONDS, NETWORK_HOP_SECONDS = 3.4e-6, 9.6e-6
"""Latency of a hop by NVLink and by network (NCCL, src/graph/tuning.cc: hwLat of Ring, Simple).

Between machines there are as many as a tree has, which NCCL picks where a ring takes longer."""
BUCKET_BYTES = 25 * 2**20
"""Gradients that DDP sums at once (torch, DistributedDataParallel: bucket_cap_mb)."""
FORWARD = 1 / 3
"""Forward's share of the time of a micro-batch; backward has the rest."""


class NetworkSlice(NamedTuple):
    """Seconds of a part of a network in a micro-batch, and the number of its weights."""

    seconds: float
    weights: float


class Links(NamedTuple):
    """Machines, devices in each, and rates from device to device in bytes a second."""

    machines: int
    per_host: int
    link_bytes: float
    network_bytes: float

    def inside(self, size_bytes: float) -> float:
        """Seconds to gather a tensor within a machine, or to sum and scatter it."""
        latency = (self.per_host - 1) * HOP_SECONDS
        return _ring(size_bytes, self.per_host, self.link_bytes, latency)

    def between(self, size_bytes: float) -> float:
        """The same between machines, for the part that each device has of a tensor."""
        latency = ceil(log2(self.machines)) * NETWORK_HOP_SECONDS
        return _ring(size_bytes / self.per_host, self.machines, self.network_bytes, latency)


def _ring(size_bytes: float, members: int, bytes_a_second: float, latency: float) -> float:
    return (members - 1) / members * size_bytes / (LINK_SHARE * bytes_a_second) + latency


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


def spread_over(
    stage: Stage,
    trained: Parameters,
    step: ByPart,
    microbatches: float,
    how: Execution,
    layout: Layout,
    device: Device,
) -> Spread:
    """The devices of a run, with the messages of a step whose parts take ``step``."""
    world = layout.world
    network = min(device.link_bytes, device.network_bytes)
    links = Links(world.size // world.per_host, world.per_host, device.link_bytes, network)
    hides = device.kind != "cpu"  # there messages and computing share the cores
    pieces = _pieces(stage, trained, step, hides / microbatches, layout.sharded)
    if layout.sharded:
        seconds, exposed = _sharded(pieces, microbatches, how, layout, links)
    else:
        buckets = [
            (computing, 2 * (links.inside(size) + links.between(size)))
            for computing, size in _buckets(pieces)
        ]
        seconds, exposed = sum(message for _, message in buckets), not_hidden(buckets)
    return Spread(world.size, world.per_host, layout.strategy, seconds, exposed)


def _pieces(
    stage: Stage, trained: Parameters, step: ByPart, times: float, sharded: bool
) -> list[NetworkSlice]:
    """Heads, layers and embeddings, in the order of backward.

    Weights that layers share have their gradients last, with the token table. Sharded, heads are
    gathered with these, as no layer's own.
    """
    depth, layers = stage.encoder.depth, min(sum(unshared(stage.encoder)), trained.layers)
    layers += trained.generator
    heads = 0 if sharded else trained.heads
    last = trained.total - heads - layers
    spent = {part: times * seconds.seconds for part, seconds in step.items()}
    apart = ("head", "embeddings", "teacher", "optimiser", "loader")
    inside = sum(seconds for part, seconds in spent.items() if part not in apart)
    return [
        NetworkSlice(spent["head"], heads),
        *[NetworkSlice(inside / depth, layers / depth)] * depth,
        NetworkSlice(spent["embeddings"], last),
    ]


def _buckets(pieces: Iterable[NetworkSlice]) -> Iterator[tuple[float, float]]:
    """Seconds of backward until each bucket is full, and its bytes."""
    seconds = size_bytes = 0.0
    for piece in pieces:
        seconds += (1 - FORWARD) * piece.seconds
        size_bytes += FP32 * piece.weights
        if size_bytes >= BUCKET_BYTES:
            yield seconds, size_bytes
            seconds = size_bytes = 0.0
    if size_bytes:
        yield seconds, size_bytes


def _sharded(
    pieces: list[NetworkSlice], microbatches: float, how: Execution, layout: Layout, links: Links
) -> tuple[float, float]:
    """Seconds of messages about sharded weights, and those not hidden.

    Weights are gathered for forward, those of layers for backward too, in every micro-batch;
    gradients are summed once.
    """
    copied = layout.strategy == "hsdp"

    def gather(size_bytes: float) -> float:
        return links.inside(size_bytes) + (0 if copied else links.between(size_bytes))

    def reduce(weights: float) -> float:
        return links.inside(FP32 * weights) + (1 + copied) * links.between(FP32 * weights)

    *layers, last = pieces
    first = gather(FP32 * last.weights)
    gathers = [gather(how.value_bytes * layer.weights) if layer.weights else 0 for layer in layers]
    reduces = [reduce(piece.weights) if piece.weights else 0 for piece in pieces]
    ahead = [FORWARD * piece.seconds for piece in pieces]
    behind = [(1 - FORWARD) * piece.seconds for piece in pieces]
    forward = not_hidden(zip(ahead, (*gathers, first), strict=True))
    backward = not_hidden(zip(behind[::-1], (0, *gathers[::-1]), strict=True))
    rounds = ceil(microbatches)
    exposed = rounds * (forward + backward)
    # The last backward sends gradients on the same links.
    both = sum(gathers) + sum(reduces) - sum(behind)
    summing = not_hidden(zip(behind, reduces, strict=True))
    exposed += max(summing, both - backward)
    seconds = rounds * (first + 2 * sum(gathers)) + sum(reduces)
    return seconds, exposed
