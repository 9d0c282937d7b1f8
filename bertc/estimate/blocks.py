"""Memory per block of a network, and the device budget that it has to fit."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bertc.estimate.execution import FP32, Execution
from bertc.estimate.rules import cost
from bertc.ir import operation as op
from bertc.ir.base import DeviceKind
from bertc.ir.program.network import Network
from bertc.ir.program.stage import Stage
from bertc.planning.world import Strategy


@dataclass(frozen=True)
class DeviceBudget:
    """Device and settings of a step: memory in bytes, device kind, precision, compiled or not.

    With ``strategy="ddp"`` gradients persist between steps. ``begun``: this process already has a
    CUDA context, and ``memory_bytes`` excludes it. ``fast_bf16``: its products take bf16.
    """

    memory_bytes: int
    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    compiled: bool
    recompute: Literal["auto", "on", "off"]
    strategy: Strategy = "single"
    begun: bool = False
    fast_bf16: bool = True

    @property
    def unrounded_bytes(self) -> int:
        """Bytes beside each score of a bf16 product that the device makes in fp32 and rounds."""
        return 0 if self.precision == "fp32" or self.fast_bf16 else FP32

    @property
    def execution(self) -> Execution:
        """The execution settings shared by all operations."""
        return Execution(self.device, self.precision, self.compiled)


class BlockBytes(NamedTuple):
    """Bytes of a block: weights and their bf16 copies; saved and transient bytes per example."""

    owner: str
    weights: int
    copies: int
    kept: int
    transient: int


class Gradients:
    """Running total of the layers' gradients, in bytes, during backward.

    With ``accumulating``, the gradient of an unshared weight is added to the existing one at once;
    of a shared weight only after its last user.
    """

    def __init__(self, layers: tuple[tuple[BlockBytes, ...], ...], accumulating: bool) -> None:
        self._users = Counter(block.owner for layer in layers for block in layer)
        self._accumulating = accumulating
        self._seen: set[str] = set()
        self._bytes = 0

    def add(self, block: BlockBytes) -> int:
        """Count the block's gradients and return the total in bytes at that moment."""
        if block.owner in self._seen:
            return self._bytes
        self._seen.add(block.owner)
        if self._accumulating and self._users[block.owner] == 1:
            return self._bytes + block.weights
        self._bytes += block.weights
        return self._bytes


def call_of(stage: Stage, network: Network, rows: int) -> op.Call:
    """The arguments of a forward pass of ``network`` over ``rows`` rows of ``stage``."""
    states, depth = stage.seq + network.query_states, network.body.depth
    return op.Call(
        rows=rows,
        tokens=stage.seq,
        queries=states if network.num_outputs is None else network.num_outputs,
        memory=network.memory,
        query_states=network.query_states,
        directions=network.directions,
        sequences=stage.texts + 1 if stage.pack else 0,
        pooled=_pooled(stage, network),
        decoded=network.outputs(stage.seq)[1],
        layers=network.wanted.whole_layers(depth),
        projects=network.wanted.projects_next(depth),
    )


def _pooled(stage: Stage, network: Network) -> int:
    """States of a row that go through the pooler: one of each example, or all that tasks score."""
    terms = [term.objective for term in network.terms]
    read = [each.pooled for each in terms if each.reads_pooler(network.body)]
    return (stage.texts if all(read) else stage.seq) if read else 0


def kept_by(operations: op.Operations, how: Execution) -> int:
    """Bytes that these operations save for backward."""
    return sum(cost(each, how).kept for each in operations)


def largest_scores(operations: op.Operations) -> int:
    """Number of scores of the largest loss over a vocabulary, or over a cluster of it."""
    losses = (each for each in operations if isinstance(each, op.VocabularyLoss))
    return max((each.rows * each.vocab for each in losses), default=0)


def block_bytes(forward: op.Forward, how: Execution) -> tuple[tuple[BlockBytes, ...], ...]:
    """Bytes of every block, layer by layer, in forward order."""
    return tuple(tuple(_of_block(block, how) for block in layer) for layer in forward.layers)


def _of_block(block: op.Block, how: Execution) -> BlockBytes:
    """Sum an operation list into one block; a single operation dominates the transient bytes."""
    costs = [cost(each, how) for each in block.operations]
    cast = block.weights * how.value_bytes if how.precision == "bf16" else 0
    return BlockBytes(
        owner=block.owner,
        weights=block.weights * FP32,
        copies=cast or sum(each.copies for each in costs),
        kept=sum(each.kept for each in costs),
        transient=sum(each.transient for each in costs),
    )
