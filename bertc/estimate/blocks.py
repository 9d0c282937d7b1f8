"""What the blocks of a network need in memory, and the machine that they lie in."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from bertc.estimate.execution import FP32, Execution
from bertc.estimate.rules import cost
from bertc.ir import operation as op
from bertc.ir.base import DeviceKind
from bertc.ir.program.network import Network
from bertc.ir.program.resolved import Stage
from bertc.passes.stages import reads_pooler
from bertc.planning.world import Strategy


@dataclass(frozen=True)
class Room:
    """Where a step runs: the memory of the device, its kind, what it computes in and how.

    Under the ``strategy`` ddp gradients stay from step to step. On a GPU where this process has
    ``begun`` its context no longer counts: the memory is what is left.
    """

    memory_bytes: int
    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    compiled: bool
    recompute: Literal["auto", "on", "off"]
    strategy: Strategy = "single"
    begun: bool = False

    @property
    def how(self) -> Execution:
        """Of every operation."""
        return Execution(self.device, self.precision, self.compiled)


@dataclass(frozen=True)
class BlockBytes:
    """What a block needs: for its weights and copies of them, and for one example."""

    owner: str
    weights: int
    copies: int
    kept: int
    transient: int


class Gradients:
    """Bytes of the layers' gradients as backward adds them.

    Where there are gradients of earlier micro-batches a new one is added to them at once, but that
    of shared weights only after the last block that uses them.
    """

    def __init__(self, layers: tuple[tuple[BlockBytes, ...], ...], accumulating: bool) -> None:
        self._users = Counter(block.owner for layer in layers for block in layer)
        self._accumulating = accumulating
        self._seen: set[str] = set()
        self._bytes = 0

    def add(self, block: BlockBytes) -> int:
        """The bytes once that block has its gradients."""
        if block.owner in self._seen:
            return self._bytes
        self._seen.add(block.owner)
        if self._accumulating and self._users[block.owner] == 1:
            return self._bytes + block.weights
        self._bytes += block.weights
        return self._bytes


def call_of(stage: Stage, network: Network, rows: int) -> op.Call:
    """A forward pass of a network over so many rows of a stage."""
    states = stage.seq + network.unseen
    return op.Call(
        rows=rows,
        tokens=stage.seq,
        queries=states if network.asked is None else network.asked,
        memory=network.memory,
        targets=network.unseen,
        directions=network.ways,
        sequences=stage.texts + 1 if stage.pack else 0,
        # A pooler that nothing reads is not run; else it pools every example of a row.
        pooled=stage.texts if reads_pooler(network.terms) else 0,
    )


def kept_by(operations: op.Operations, how: Execution) -> int:
    """Bytes that they keep for backward."""
    return sum(cost(each, how).kept for each in operations)


def block_bytes(forward: op.Forward, how: Execution) -> tuple[tuple[BlockBytes, ...], ...]:
    """Layer by layer, the blocks of each in forward order."""
    return tuple(tuple(_of_block(block, how) for block in layer) for layer in forward.layers)


def _of_block(block: op.Block, how: Execution) -> BlockBytes:
    """All transient bytes of a block count together: one of its operations has nearly all."""
    costs = [cost(each, how) for each in block.operations]
    cast = block.weights * how.value_bytes if how.precision == "bf16" else 0
    return BlockBytes(
        owner=block.owner,
        weights=block.weights * FP32,
        copies=cast or sum(each.copies for each in costs),
        kept=sum(each.kept for each in costs),
        transient=sum(each.transient for each in costs),
    )
