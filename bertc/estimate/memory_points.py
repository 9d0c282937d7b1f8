"""Points of a training step at which memory may peak, in time order.

Backward frees a layer's saved activations while it adds that layer's gradients, so the peak is
wherever their sum is largest: at the vocabulary scores, within a layer, at the gradient of the
token table, or at the update. Saved activations are autograd's without a compiler: inputs of every
product, norm and activation, dropout masks, weights cast to bf16, and the scores at predicted
positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from bertc.estimate.batch import batch_bytes, memory_bytes
from bertc.estimate.blocks import (
    BlockBytes,
    DeviceBudget,
    Gradients,
    block_bytes,
    kept_by,
    largest_scores,
)  # fmt: skip
from bertc.estimate.execution import FP32
from bertc.estimate.figures import Parameters
from bertc.estimate.machines.cuda import CUBLAS_BYTES
from bertc.estimate.update import state_bytes, temporary_bytes
from bertc.ir import operation as op
from bertc.ir.network.body import Body
from bertc.ir.program.network import Network
from bertc.ir.program.stage import Stage

PROJECTED = 3
"""Queries, keys and values of a layer, which one product makes."""
CHUNK = {"cpu": 0, "cuda": 2**24, "mps": 2**24}
"""Number of scores that the eager cross entropy casts to fp32 at once.

On a CPU it is a row or, without a compiler, 2 MB."""


@dataclass(frozen=True)
class MemoryPoint:
    """Bytes in use at one point of a step: a fixed part, and a part per example."""

    fixed: int
    per_example: int

    def __add__(self, other: "MemoryPoint") -> "MemoryPoint":
        return MemoryPoint(self.fixed + other.fixed, self.per_example + other.per_example)

    def at(self, examples: int) -> int:
        """Bytes with ``examples`` at once."""
        return self.fixed + examples * self.per_example


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
    def encoder(self) -> Body:
        """The network's body."""
        return self.network.body

    @cached_property
    def kept(self) -> int:
        """Bytes that forward saves for backward, per example."""
        if not self.network.learned:
            return self.handed_on
        if not self.network.terms:
            return self.body_kept
        return self.body_kept + kept_by(self.network.head_operations(1), self.budget.execution)

    @cached_property
    def body_kept(self) -> int:
        """The same without the heads, in bytes."""
        if not self.network.terms:
            return 0
        how, forward = self.budget.execution, self.forward
        around = kept_by((*forward.embeddings, *forward.last), how) + self.states
        if self.recompute:
            return around + len(self.layers) * self.input
        return around + sum(block.kept for layer in self.layers for block in layer)

    @cached_property
    def handed_on(self) -> int:
        """Bytes that a frozen network leaves for the terms it teaches, per example."""
        stage, how = self.stage, self.budget.execution
        wanted = self.network.wanted
        read = sum(self.network.outputs(stage.seq))
        states = (read + len(wanted.states) * stage.seq) * self.encoder.hidden
        each = (self.encoder.attention_widths(layer) for layer in wanted.projections)
        states += sum(PROJECTED * stage.seq * widths.inner for widths in each if widths)
        return stage.rows_an_example * states * how.value_bytes

    @property
    def states(self) -> int:
        """Bytes of the output states per example; 0 if a single head reads all of them."""
        network, stage = self.network, self.stage
        states = sum(network.outputs(stage.seq))
        if states < stage.seq + network.query_states and len(network.terms) == 1:
            return 0
        return (
            stage.rows_an_example * states * self.encoder.hidden * self.budget.execution.value_bytes
        )

    @property
    def input(self) -> int:
        """Bytes of a layer's input, per example."""
        rows = self.stage.rows_an_example
        return rows * self.stage.seq * self.encoder.hidden * self.budget.execution.value_bytes

    @cached_property
    def copies(self) -> int:
        """Bytes of the layers' bf16 weight copies, held from forward to backward."""
        if self.recompute or not self.network.terms:
            return 0
        return sum(block.copies for layer in self.layers for block in layer)

    @cached_property
    def heads(self) -> int:
        """Number of weights of the heads and the pooler."""
        weights = {  # terms may share a head
            weight.name: weight.numel
            for term in self.network.terms
            for weight in term.objective.weights(self.encoder)
        }
        return sum(weights.values()) + sum(weight.numel for weight in self.encoder.pooler_weights())

    @cached_property
    def reads(self) -> int:
        """Number of heads that use the token table as their projection."""
        return self.network.vocabulary_heads

    @property
    def table(self) -> int:
        """Number of elements of the token table."""
        return self.encoder.table_elements

    @property
    def scores(self) -> int:
        """Number of vocabulary scores per example."""
        return self.encoder.scores(self.stage.predictions())

    @cached_property
    def gradients(self) -> int:
        """Bytes of the gradients of the network's own layers and heads."""
        owned = {block.owner: block.weights for layer in self.layers for block in layer}
        return sum(owned.values()) + self.heads * FP32


@dataclass(frozen=True)
class Step:
    """A step as far as memory depends on it; ``parameters`` counts the whole run.

    ``accumulating``: gradients of earlier micro-batches exist. ``recompute``: a layer saves only
    its input and repeats its forward during backward.
    """

    stage: Stage
    parameters: Parameters
    budget: DeviceBudget
    forwards: tuple[op.Forward, ...]
    accumulating: bool
    recompute: bool

    @cached_property
    def passes(self) -> tuple[NetworkPass, ...]:
        """One entry per network, in the order of their forward passes."""
        return tuple(
            NetworkPass(
                self.stage,
                network,
                self.budget,
                forward,
                block_bytes(forward, self.budget.execution),
                self.recompute,
            )
            for network, forward in zip(self.stage.networks(), self.forwards, strict=True)
        )

    @cached_property
    def kept(self) -> int:
        """Bytes that forward saves for backward, per example, over all networks."""
        return sum(one.kept for one in self.passes)

    def points(self) -> tuple[MemoryPoint, ...]:
        """All memory points in time order; backward visits the networks last to first."""
        found = []
        for place, one in enumerate(self.passes):
            earlier, later = self.passes[:place], self.passes[place + 1 :]
            # Earlier networks still hold all saved activations; later ones already have gradients.
            fixed = self._start + sum(each.copies for each in earlier)
            if not self.accumulating:
                fixed += sum(each.gradients for each in later)
            # The gradient of a shared token table lives until both networks have added to it.
            fixed += sum(each.table * FP32 for each in later[:1] if one.network.learned)
            others = MemoryPoint(fixed, sum(each.kept for each in earlier))
            found += [others + point for point in self._own(one)]
        return (*found, *self._end())

    def _own(self, one: NetworkPass) -> Iterator[MemoryPoint]:
        """Points of one network."""
        if not one.network.learned:
            blocks = [block for layer in one.layers for block in layer]
            # Without backward a block is gone when the next one begins.
            yield max(
                (MemoryPoint(block.copies, one.handed_on + block.kept) for block in blocks),
                key=lambda point: point.per_example,
                default=MemoryPoint(0, one.handed_on),
            )
            return
        yield from self._scores(one)
        if one.network.terms:
            yield from self._layers(one)

    @cached_property
    def _start(self) -> int:
        """Bytes of weights, moments, batch, and the gradients of earlier micro-batches."""
        gradients = FP32 if self.accumulating else 0
        states = self.parameters.total * (FP32 + gradients)
        states += state_bytes(self.stage, self.parameters.total)
        states += self.parameters.frozen * FP32
        workspace = CUBLAS_BYTES if self.budget.device == "cuda" else 0
        batch = batch_bytes(self.stage, self.budget) + memory_bytes(self.stage, self.budget)
        return states + workspace + batch

    def _scores(self, one: NetworkPass) -> Iterator[MemoryPoint]:
        """Points at the vocabulary scores, and where the token table's gradient is cast to fp32."""
        budget, stage = self.budget, self.stage
        fixed = one.copies
        if budget.precision == "bf16":
            fixed += (one.heads + one.reads * one.table) * budget.execution.value_bytes
        if not one.reads and one.network.terms:
            yield MemoryPoint(fixed, one.kept)
            return
        slope = one.table * budget.execution.value_bytes
        if budget.compiled:
            # Compiled code keeps the scores' gradient beside them, on a CPU in fp32 too.
            beside = budget.execution.value_bytes + (FP32 if budget.device == "cpu" else 0)
            yield MemoryPoint(fixed + slope, one.kept + one.scores * beside)
        else:
            # A chunk before and after its bias is added (in fp32 only after), and the last chunk.
            at_once = 1 if budget.precision == "fp32" else 2
            scores = (stage.microbatch or stage.batch) * one.scores
            chunks = min((at_once + 1) * CHUNK[budget.device], at_once * scores) * FP32
            unrounded = largest_scores(one.network.head_operations(1)) * budget.unrounded_bytes
            yield MemoryPoint(fixed + max(slope, chunks), one.kept + unrounded)
        if budget.precision == "bf16":
            # The bf16 copy of the table is freed by then; its gradient replaces it.
            yield MemoryPoint(one.copies + one.table * FP32, one.body_kept)

    def _layers(self, one: NetworkPass) -> Iterator[MemoryPoint]:
        """Points within each block of the layers, last layer first."""
        left, copied = one.body_kept, one.copies
        gradients = Gradients(one.layers, self.accumulating)
        # The token table's gradient from the head lives until the embeddings add theirs.
        fixed = one.table * FP32 if one.reads else 0
        for layer in reversed(one.layers):
            if self.recompute:
                left += sum(block.kept for block in layer) - one.input
                copied += sum(block.copies for block in layer)
            for block in reversed(layer):
                made = gradients.add(block)
                yield MemoryPoint(fixed + copied + made, left + block.transient)
                left -= block.kept
            copied -= sum(block.copies for block in layer)

    def _end(self) -> Iterator[MemoryPoint]:
        """Points at the dense gradient of the token table, and at the optimiser's update."""
        gradients = self.parameters.total * FP32
        first = next(one for one in self.passes if one.network.learned)
        begun = 0 if self.accumulating else gradients - first.table * FP32
        # The head's gradient of the table is added to the embeddings' only here.
        halves = 2 if first.reads else 1
        embedded = self.stage.seq * first.encoder.embedding * FP32
        yield MemoryPoint(self._start + begun + halves * first.table * FP32, embedded)
        held = 0 if self.accumulating else gradients
        # Updates are compiled on a CPU only.
        one_by_one = self.budget.compiled and self.budget.device == "cpu"
        update = temporary_bytes(self.stage, self.parameters.total, one_by_one)
        yield MemoryPoint(self._start + held + update, 0)
