"""Memory of a network and of its blocks, and the device budget that it has to fit."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bertc.cost.figures import FP32, DeviceBudget, Execution
from bertc.cost.parameters import count_heads
from bertc.cost.rules import cost, is_fused
from bertc.ir import operation as op
from bertc.ir.network.body import counted_weights
from bertc.ir.program import Network, Stage
from bertc.ir.program.passing import adapts
from bertc.ir.terms.heads import over_tokens
from bertc.ir.terms.node import asks_head


class BlockBytes(NamedTuple):
    """Bytes of a block: gradients and bf16 copies; saved and transient bytes per example."""

    owner: str
    weights: int
    copies: int
    kept: int
    transient: int


class MemoryPoint(NamedTuple):
    """Bytes in use at one point of a step: a fixed part, and a part per example."""

    fixed: int
    per_example: int

    def __add__(self, more: "MemoryPoint") -> "MemoryPoint":  # type: ignore[override]
        return MemoryPoint(self.fixed + more.fixed, self.per_example + more.per_example)

    def at(self, examples: int) -> int:
        """Bytes with ``examples`` at once."""
        return self.fixed + examples * self.per_example


class LossBytes(NamedTuple):
    """Bytes of a loss in blocks; per example ``kept`` with all before, ``saved`` by it alone."""

    kept: int
    saved: int
    block: int
    table: int


def bytes_saved(operations: op.Operations, how: Execution) -> int:
    """Bytes that these operations save for backward."""
    return sum(cost(operation, how).kept for operation in operations)


def forward_bytes(operation: op.Operation, how: Execution, unrounded: int, drops: bool) -> int:
    """Bytes while one operation without backward is computed, if that may be more than is kept."""
    match operation:
        case op.Product(rows=rows, inner=inner, columns=columns, maps=maps) if maps and unrounded:
            made = columns * (how.value_bytes + unrounded)
            return operation.times * rows * (inner * how.value_bytes + made)
        case op.Attention(queries=queries, keys=keys, dropout=True) if drops and not is_fused(
            operation, how
        ):
            # States, what is projected, its copies by heads, and scores: as they are, as chances,
            # with dropout, and its random numbers.
            inner = operation.heads * operation.head_dim
            projected = (3 * queries + 4 * keys) * inner
            scores = 4 * operation.heads * queries * operation.span
            return operation.rows * (projected + scores) * how.value_bytes
        case _:
            return 0


def block_bytes(forward: op.Forward, how: Execution) -> tuple[tuple[BlockBytes, ...], ...]:
    """Bytes of every block, layer by layer, in forward order."""
    once: dict[int, tuple[int, int, int]] = {}  # of layers alike

    def bytes_of(block: op.Block) -> BlockBytes:
        if id(block.operations) not in once:
            costs = [cost(operation, how) for operation in block.operations]
            sums = sum(c.copies for c in costs), sum(c.kept for c in costs)
            once[id(block.operations)] = (*sums, sum(c.transient for c in costs))
        copies, saved, transient = once[id(block.operations)]
        cast = block.weights * how.value_bytes if how.precision == "bf16" else 0
        trained = (block.weights - block.frozen) * FP32
        return BlockBytes(block.owner, trained, cast or copies, saved, transient)

    return tuple(tuple(map(bytes_of, layer)) for layer in forward.layers)


@dataclass(frozen=True)
class NetworkPass:
    """Memory of one network from its forward to its backward pass."""

    stage: Stage
    network: Network
    budget: DeviceBudget
    forward: op.Forward
    layers: tuple[tuple[BlockBytes, ...], ...]
    recompute: bool

    @property
    def how(self) -> Execution:
        """The settings of its operations."""
        return self.budget.execution

    @cached_property
    def kept(self) -> int:
        """Bytes that forward saves for backward, per example."""
        if not self.network.learned:
            return self.handed_on.per_example
        if not self.network.terms:
            return self.body_kept
        return self.body_kept + bytes_saved(self.network.head_operations(1), self.how)

    @cached_property
    def body_kept(self) -> int:
        """The same without the heads, in bytes."""
        if not self.network.terms:
            return 0
        how, forward = self.how, self.forward
        around = bytes_saved((*forward.embeddings, *forward.last), how) + self.states
        if self.recompute:
            return around + len(self.layers) * self.input + self.mixed
        return around + sum(block.kept for layer in self.layers for block in layer)

    @cached_property
    def mixed(self) -> int:
        """Bytes of earlier outputs that sums save, per example; no layer computes them again."""
        operations = (o for layer in self.forward.layers for b in layer for o in b.operations)
        return bytes_saved(tuple(o for o in operations if isinstance(o, op.Mixture)), self.how)

    @property
    def at_once(self) -> list[MemoryPoint]:
        """Bytes of each block that keeps nothing for backward, while it is computed."""
        network, unrounded, points = self.network, self.how.unrounded_bytes, []
        blocks = zip(self.forward.layers, self.layers, strict=True)
        for block, figures in (pair for both in blocks for pair in zip(*both, strict=True)):
            forward_only = tuple(o.operation for o in block.operations if isinstance(o, op.Alone))
            if network.learned and len(forward_only) < len(block.operations):
                continue
            done = forward_only or block.operations
            most = max(forward_bytes(o, self.how, unrounded, network.learned) for o in done)
            points.append(MemoryPoint(figures.copies, max(bytes_saved(done, self.how), most)))
        return points

    @cached_property
    def in_blocks(self) -> tuple[LossBytes, ...]:
        """The losses that are made in blocks, in the order of forward."""
        how, saved, squares, losses = self.how, self.body_kept, 0, []
        # A part of a batch is compared with all of it.
        compares = any(task.compares_examples for task in self.stage.tasks)
        of_part = self.stage.microbatch or self.stage.batch
        examples = self.stage.batch if compares else of_part
        heads = (self.network.head_operations(count) for count in (1, of_part, examples))
        for head, part, all_at_once in zip(*heads, strict=True):
            apart = isinstance(part, op.LossInBlocks) and part.by_part
            single, together = cost(head, how), cost(part if apart else all_at_once, how)
            saved += single.kept
            squares += together.kept - examples * single.kept  # of a batch compared with itself
            if block := together.block:
                losses.append(LossBytes(saved, single.kept, block + squares, together.table))
        return tuple(losses)

    @property
    def cast(self) -> int:
        """Bytes of weights that are cast when the losses are made."""
        if self.how.precision != "bf16":
            return self.copies
        numbers = self.heads + self.network.vocabulary_heads * self.table
        return self.copies + numbers * self.how.value_bytes

    @cached_property
    def handed_on(self) -> MemoryPoint:
        """Bytes of outputs for terms that are there until all losses are, and not saved anyway."""
        stage, how, outputs = self.stage, self.how, self.network.wanted
        layers = [layer for layer in outputs.projections if not self._saves_projected(layer)]
        attended = (self.network.body.attention_of(layer) for layer in layers)
        states = sum(3 * stage.seq * a.widths.inner for a in attended if a)  # as one product makes
        if self.network.learned:
            return MemoryPoint(0, stage.rows_an_example * states * how.value_bytes)
        last, decoded = self.network.outputs(stage.seq)
        if last == stage.seq and outputs.whole_layers(self.network.body.depth) in outputs.states:
            last = 0
        states += (last + decoded + len(outputs.states) * stage.seq) * self.network.body.hidden
        tables = sum(asks_head(t) and over_tokens(t.head_node) for t in self.network.scored)
        cast = tables * self.table * how.value_bytes if how.precision == "bf16" else 0
        return MemoryPoint(cast, stage.rows_an_example * states * how.value_bytes)

    def _saves_projected(self, layer: int) -> bool:
        """True if backward has queries, keys and values of a layer, from 1, and not copies."""
        if not self.network.learned or self.recompute or layer > len(self.forward.layers):
            return False
        operations = (o for block in self.forward.layers[layer - 1] for o in block.operations)
        return all(is_fused(o, self.how) for o in operations if isinstance(o, op.Attention))

    @property
    def states(self) -> int:
        """Bytes of the output states per example; 0 if a single head reads all of them."""
        network, stage = self.network, self.stage
        states = sum(network.outputs(stage.seq))
        if states < stage.seq + network.query_states and len(network.terms) == 1:
            return 0
        return stage.rows_an_example * states * self.network.body.hidden * self.how.value_bytes

    @property
    def input(self) -> int:
        """Bytes of a layer's input, per example."""
        rows = self.stage.rows_an_example
        return rows * self.stage.seq * self.network.body.hidden * self.how.value_bytes

    @cached_property
    def copies(self) -> int:
        """Bytes of the layers' bf16 weight copies, held from forward to backward."""
        if self.recompute or not self.network.terms:
            return 0
        return sum(block.copies for layer in self.layers for block in layer)

    @cached_property
    def heads(self) -> int:
        """Number of weights of the heads and the pooler."""
        parts = (weights for weights, _, _ in counted_weights(self.network.body))
        pooler = (w.numel for weights in parts for w in weights if w.part == "pooler")
        return count_heads(self.network) + sum(pooler)

    @property
    def table(self) -> int:
        """Number of elements of the token table."""
        return self.network.body.token_head.table_elements

    @property
    def slope(self) -> int:
        """Number of elements of the token table's gradient."""
        return 0 if adapts(self.network) else self.table

    @cached_property
    def gradients(self) -> int:
        """Bytes of the gradients of the network's own layers and heads."""
        owned = {block.owner: block.weights for layer in self.layers for block in layer}
        return sum(owned.values()) + self.heads * FP32
