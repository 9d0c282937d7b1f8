"""The moments of a training step at which its memory may be fullest, in the order they come.

Backward lets go of what a layer kept while it adds the gradients of that layer's weights, so the
peak is wherever their sum is largest: at the scores over the vocabulary, within a layer, at the
gradient of the token table, or at the update. What is kept is what autograd keeps without a
compiler: the inputs of every product, norm and activation, dropout masks, the weights as cast, and
the scores at predicted positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

from bertc.estimate.batch import batch_bytes
from bertc.estimate.blocks import BlockBytes, Gradients, Room, block_bytes, kept_by
from bertc.estimate.cuda import CUBLAS_BYTES
from bertc.estimate.execution import FP32
from bertc.estimate.figures import Parameters
from bertc.ir import operation as op
from bertc.ir.learning.optimizer import Adam, Lamb
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.network import Network
from bertc.ir.program.resolved import Stage

MOMENTS_BYTES = 8
"""Per weight: two moments in fp32 (Adam, LAMB)."""
CHUNK = {"cpu": 0, "cuda": 2**24, "mps": 2**24}
"""Scores that the cross entropy of an eager step turns into fp32 at once; on a CPU a row or, where
no compiler is, 2 MB."""


@dataclass(frozen=True)
class Moment:
    """Bytes in use at one point of a step: whatever the micro-batch, and for each example of it."""

    fixed: int
    per_example: int

    def __add__(self, other: "Moment") -> "Moment":
        return Moment(self.fixed + other.fixed, self.per_example + other.per_example)

    def at(self, examples: int) -> int:
        """With that many examples at once."""
        return self.fixed + examples * self.per_example


@dataclass(frozen=True)
class Pass:
    """One network's part of a step: what it has in memory from its forward to its backward."""

    stage: Stage
    network: Network
    room: Room
    forward: op.Forward
    layers: tuple[tuple[BlockBytes, ...], ...]
    recompute: bool

    @property
    def encoder(self) -> Encoder:
        """The network itself."""
        return self.network.body

    @cached_property
    def kept(self) -> int:
        """Bytes that forward leaves of one example for backward."""
        if not self.network.terms:
            return self.body_kept
        return self.body_kept + kept_by(self.network.head_operations(1), self.room.how)

    @cached_property
    def body_kept(self) -> int:
        """Of them those without the heads'."""
        if not self.network.terms:
            return 0
        how, forward = self.room.how, self.forward
        around = kept_by((*forward.embeddings, *forward.last), how) + self.states
        if self.recompute:
            return around + len(self.layers) * self.input
        return around + sum(block.kept for layer in self.layers for block in layer)

    @property
    def states(self) -> int:
        """Bytes of what the network makes of one example: one head alone takes it as it is."""
        asked, stage = self.network.asked, self.stage
        if asked is not None and len(self.network.terms) == 1:
            return 0
        states = stage.seq + self.network.unseen if asked is None else asked
        return stage.rows_an_example * states * self.encoder.hidden * self.room.how.value_bytes

    @property
    def input(self) -> int:
        """Of a layer."""
        rows = self.stage.rows_an_example
        return rows * self.stage.seq * self.encoder.hidden * self.room.how.value_bytes

    @cached_property
    def copies(self) -> int:
        """Of the layers' weights, kept from forward on."""
        if self.recompute or not self.network.terms:
            return 0
        return sum(block.copies for layer in self.layers for block in layer)

    @cached_property
    def heads(self) -> int:
        """Weights of its heads, and of what they read beside the states."""
        weights = {  # terms may share a head
            weight.name: weight.numel
            for term in self.network.terms
            for weight in term.objective.weights(self.encoder)
        }
        return sum(weights.values()) + sum(weight.numel for weight in self.encoder.pooler_weights())

    @cached_property
    def reads(self) -> int:
        """Heads over the vocabulary."""
        return self.network.vocabulary_heads

    @property
    def table(self) -> int:
        """Numbers in the token table."""
        return self.encoder.table_elements

    @property
    def scores(self) -> int:
        """Of one example."""
        return self.encoder.scores(self.stage.predictions())

    @cached_property
    def gradients(self) -> int:
        """Bytes of the gradients of its own layers and heads."""
        owned = {block.owner: block.weights for layer in self.layers for block in layer}
        return sum(owned.values()) + self.heads * FP32


@dataclass(frozen=True)
class Step:
    """What the memory of a step follows from. ``parameters`` are those of the whole run.

    ``accumulating``: the gradients of earlier micro-batches are there. ``recompute``: a layer keeps
    its input alone, and the rest is computed anew when backward comes to it.
    """

    stage: Stage
    parameters: Parameters
    room: Room
    forwards: tuple[op.Forward, ...]
    accumulating: bool
    recompute: bool

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """Of the networks, in the order in which they read."""
        return tuple(
            Pass(
                self.stage,
                network,
                self.room,
                forward,
                block_bytes(forward, self.room.how),
                self.recompute,
            )
            for network, forward in zip(self.stage.networks(), self.forwards, strict=True)
        )

    @cached_property
    def kept(self) -> int:
        """Bytes that forward leaves of one example for backward."""
        return sum(one.kept for one in self.passes)

    def moments(self) -> tuple[Moment, ...]:
        """In the order of time: backward comes to the networks from the last one on."""
        found = []
        for place, one in enumerate(self.passes):
            earlier, later = self.passes[:place], self.passes[place + 1 :]
            # Those that read earlier still have all they kept; those that read later, gradients.
            fixed = self._start + sum(each.copies for each in earlier)
            if not self.accumulating:
                fixed += sum(each.gradients for each in later)
            # The gradient of a table that both read waits until both have added to it.
            fixed += sum(each.table * FP32 for each in later[:1])
            others = Moment(fixed, sum(each.kept for each in earlier))
            own = (*self._scores(one), *(self._layers(one) if one.network.terms else ()))
            found += [others + moment for moment in own]
        return (*found, *self._end())

    @cached_property
    def _start(self) -> int:
        """Weights, moments, the batch, and the gradients of earlier micro-batches."""
        gradients = FP32 if self.accumulating else 0
        states = self.parameters.total * (FP32 + MOMENTS_BYTES + gradients)
        workspace = CUBLAS_BYTES if self.room.device == "cuda" else 0
        batch = batch_bytes(self.stage, self.room) + memory_bytes(self.stage, self.room)
        return states + workspace + batch

    def _scores(self, one: Pass) -> Iterator[Moment]:
        """At the scores, and where the gradient of their table becomes fp32."""
        room, stage = self.room, self.stage
        fixed = one.copies
        if room.precision == "bf16":
            fixed += (one.heads + one.reads * one.table) * room.how.value_bytes
        if not one.reads and one.network.terms:
            yield Moment(fixed, one.kept)
            return
        slope = one.table * room.how.value_bytes
        if room.compiled:
            # The compiled form makes their gradient beside them, on a CPU through fp32.
            beside = room.how.value_bytes + (FP32 if room.device == "cpu" else 0)
            yield Moment(fixed + slope, one.kept + one.scores * beside)
        else:
            # A chunk before and after its bias is added (in fp32 there is no before), and the last.
            at_once = 1 if room.precision == "fp32" else 2
            scores = (stage.microbatch or stage.batch) * one.scores
            chunks = min((at_once + 1) * CHUNK[room.device], at_once * scores) * FP32
            yield Moment(fixed + max(slope, chunks), one.kept)
        if room.precision == "bf16":
            # The table as cast is gone by then: its gradient stands in its place.
            yield Moment(one.copies + one.table * FP32, one.body_kept)

    def _layers(self, one: Pass) -> Iterator[Moment]:
        """In each block of the layers, the last first."""
        left, copied = one.body_kept, one.copies
        gradients = Gradients(one.layers, self.accumulating)
        # The gradient of the token table waits for its second half until the embeddings' turn.
        fixed = one.table * FP32 if one.reads else 0
        for layer in reversed(one.layers):
            if self.recompute:
                left += sum(block.kept for block in layer) - one.input
                copied += sum(block.copies for block in layer)
            for block in reversed(layer):
                made = gradients.add(block)
                yield Moment(fixed + copied + made, left + block.transient)
                left -= block.kept
            copied -= sum(block.copies for block in layer)

    def _end(self) -> Iterator[Moment]:
        """At the gradient of the token table, dense like the table, and at the update."""
        gradients = self.parameters.total * FP32
        first = self.passes[0]
        begun = 0 if self.accumulating else gradients - first.table * FP32
        # That of a head waits for that of the embeddings.
        halves = 2 if first.reads else 1
        embedded = self.stage.seq * first.encoder.embedding * FP32
        yield Moment(self._start + begun + halves * first.table * FP32, embedded)
        held = 0 if self.accumulating else gradients
        yield Moment(self._start + held + self._update_bytes(), 0)

    def _update_bytes(self) -> int:
        """What the rule makes of all weights at once: divisors and updates where it is eager."""
        match self.stage.optimizer:
            case Adam():
                return 0
            case Lamb():
                # Compiled it is on a CPU alone.
                by_tensor = self.room.compiled and self.room.device == "cpu"
                return self.parameters.total * FP32 * (1 if by_tensor else 2)
            case unreachable:
                assert_never(unreachable)


def memory_bytes(stage: Stage, room: Room) -> int:
    """What the rows of a batch remember, and beside it what they will."""
    layer = stage.batch * stage.memory * stage.encoder.hidden
    return 2 * stage.encoder.depth * layer * room.how.value_bytes
