"""The moments of a training step at which its memory may be fullest, in the order they come.

Backward lets go of what a layer kept while it adds the gradients of that layer's weights, so the
peak is wherever their sum is largest: at the scores over the vocabulary, within a layer, at the
gradient of the token table, or at the update. What is kept is what autograd keeps without a
compiler: the inputs of every product, norm and activation, dropout masks, the weights as cast, and
the scores at predicted positions.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, assert_never

from bertc.estimate.figures import Parameters
from bertc.ir.base import Kept
from bertc.ir.encoder import Encoder
from bertc.ir.objective import Clm, Mlm, Sbo
from bertc.ir.optimizer import Adam, Lamb
from bertc.ir.resolved import Stage, head_kept

FP32 = 4
LONG = 8
MOMENTS_BYTES = 8
"""Per weight: two moments in fp32 (Adam, LAMB)."""
CHUNK = 2**19
"""Scores that the cross entropy of an eager CPU step turns into fp32 at once."""


@dataclass(frozen=True)
class Room:
    """Where a step runs: the memory of the device, its kind, what it computes in and how."""

    memory_bytes: int
    device: Literal["cpu", "cuda"]
    precision: Literal["fp32", "bf16"]
    compiled: bool
    recompute: Literal["auto", "on", "off"]

    @property
    def value_bytes(self) -> int:
        """Of an activation."""
        return 2 if self.precision == "bf16" else FP32

    def bytes_of(self, kept: Kept) -> int:
        """CPU kernels keep dropout masks as values, those of a GPU as bytes."""
        mask_bytes = self.value_bytes if self.device == "cpu" else 1
        return kept.values * self.value_bytes + kept.fp32 * FP32 + kept.masks * mask_bytes

    def fused(self, encoder: Encoder) -> bool:
        """Whether attention keeps no scores: a CPU has no fused kernel with dropout."""
        return not (self.device == "cpu" and encoder.dropout.attention)


@dataclass(frozen=True)
class Moment:
    """Bytes in use at one point of a step: whatever the micro-batch, and for each example of it."""

    fixed: int
    per_example: int

    def at(self, examples: int) -> int:
        """With that many examples at once."""
        return self.fixed + examples * self.per_example


@dataclass(frozen=True)
class LayerBytes:
    """What one layer needs: of weights and of copies of them, and of one example."""

    attention_weights: int
    ffn_weights: int
    copies: int
    attention_kept: int
    ffn_kept: int
    attention_working: int
    ffn_working: int

    @property
    def kept(self) -> int:
        """By both parts, for backward."""
        return self.attention_kept + self.ffn_kept


@dataclass(frozen=True)
class Step:
    """What the memory of a step follows from. ``parameters`` are those of the whole run.

    ``accumulating``: the gradients of earlier micro-batches are there. ``recompute``: a layer keeps
    its input alone, and the rest is computed anew when backward comes to it.
    """

    stage: Stage
    parameters: Parameters
    room: Room
    layers: tuple[LayerBytes, ...]
    accumulating: bool
    recompute: bool

    @property
    def encoder(self) -> Encoder:
        """The network that the stage trains."""
        return self.stage.encoder

    def moments(self) -> tuple[Moment, ...]:
        """In the order of time."""
        return (*self._scores(), *self._layers(), *self._end())

    @cached_property
    def kept(self) -> int:
        """Bytes that forward leaves of one example for backward."""
        return self._encoder_kept + self.room.bytes_of(head_kept(self.stage))

    @cached_property
    def _encoder_kept(self) -> int:
        around = self.room.bytes_of(embeddings_kept(self.stage))
        if self.recompute:
            return around + len(self.layers) * self._input
        return around + sum(layer.kept for layer in self.layers)

    @property
    def _input(self) -> int:
        return self.stage.seq * self.encoder.hidden * self.room.value_bytes

    @cached_property
    def _copies(self) -> int:
        """Of the layers' weights, kept from forward on."""
        return 0 if self.recompute else sum(layer.copies for layer in self.layers)

    @cached_property
    def _start(self) -> int:
        """Weights, moments, the batch, and the gradients of earlier micro-batches."""
        gradients = FP32 if self.accumulating else 0
        states = self.parameters.total * (FP32 + MOMENTS_BYTES + gradients)
        return states + batch_bytes(self.stage, self.room)

    @property
    def _table(self) -> int:
        return self.encoder.table_elements

    def _scores(self) -> Iterator[Moment]:
        """At the scores, and where the gradient of their table becomes fp32."""
        stage, room = self.stage, self.room
        row_scores = self.encoder.scores(stage.predictions())
        reads = sum(isinstance(term.objective, Mlm | Clm | Sbo) for term in stage.objective)
        heads = self.parameters.heads + self.parameters.pooler + reads * self._table
        fixed = self._start + self._copies
        if room.precision == "bf16":
            fixed += heads * room.value_bytes
        slope = self._table * room.value_bytes
        if room.compiled:
            # The compiled form makes their gradient beside them, on a CPU through fp32.
            beside = room.value_bytes + (FP32 if room.device == "cpu" else 0)
            yield Moment(fixed + slope, self.kept + row_scores * beside)
        else:
            # A chunk before and after its bias is added (in fp32 there is no before), and the last.
            at_once = 1 if room.precision == "fp32" else 2
            scores = (stage.microbatch or stage.batch) * row_scores
            chunks = min((at_once + 1) * CHUNK, at_once * scores) * FP32
            yield Moment(fixed + max(slope, chunks), self.kept)
        if room.precision == "bf16":
            # The table as cast is gone by then: its gradient stands in its place.
            yield Moment(fixed + self._table * FP32, self._encoder_kept)

    def _layers(self) -> Iterator[Moment]:
        """In each layer, the last first: at its feed-forward part, then at its attention."""
        left, copied = self._encoder_kept, self._copies
        gradients = Gradients(self.encoder, self.accumulating)
        # The gradient of the token table waits for its second half until the embeddings' turn.
        fixed = self._start + self._table * FP32
        for number in reversed(range(len(self.layers))):
            layer = self.layers[number]
            if self.recompute:
                left += layer.kept - self._input
                copied += layer.copies
            made = gradients.add("ffn", number, layer.ffn_weights)
            yield Moment(fixed + copied + made, left + layer.ffn_working)
            left -= layer.ffn_kept
            made = gradients.add("attention", number, layer.attention_weights)
            yield Moment(fixed + copied + made, left + layer.attention_working)
            left -= layer.attention_kept
            copied -= layer.copies

    def _end(self) -> Iterator[Moment]:
        """At the gradient of the token table, dense like the table, and at the update."""
        gradients = self.parameters.total * FP32
        begun = self._table * FP32 if self.accumulating else gradients
        embedded = self.stage.seq * self.encoder.embedding * FP32
        yield Moment(self._start + begun + self._table * FP32, embedded)
        held = 0 if self.accumulating else gradients
        yield Moment(self._start + held + self._update_bytes(), 0)

    def _update_bytes(self) -> int:
        """What the rule makes of all weights at once: divisors and updates where it is eager."""
        match self.stage.optimizer:
            case Adam():
                return 0
            case Lamb():
                return self.parameters.total * FP32 * (1 if self.room.compiled else 2)
            case unreachable:
                assert_never(unreachable)


class Gradients:
    """Bytes of the layers' gradients as backward adds them.

    Where there are gradients of earlier micro-batches a new one is added to them at once, but that
    of shared weights only after the last layer that uses them.
    """

    def __init__(self, encoder: Encoder, accumulating: bool) -> None:
        self._owners = {"attention": encoder.attention_owner, "ffn": encoder.ffn_owner}
        self._users = {part: Counter(owners) for part, owners in self._owners.items()}
        self._accumulating = accumulating
        self._seen: set[tuple[str, int]] = set()
        self._bytes = 0

    def add(self, part: Literal["attention", "ffn"], layer: int, part_bytes: int) -> int:
        """The bytes once the part of that layer has its gradients."""
        owner = self._owners[part][layer]
        if (part, owner) in self._seen:
            return self._bytes
        self._seen.add((part, owner))
        if self._accumulating and self._users[part][owner] == 1:
            return self._bytes + part_bytes
        self._bytes += part_bytes
        return self._bytes


def layer_bytes(
    encoder: Encoder, seq: int, asked: int | None, room: Room
) -> tuple[LayerBytes, ...]:
    """An entry a layer; those of equal widths are worked out once."""
    alike: dict[tuple[int, ...], LayerBytes] = {}
    found = []
    for number, widths in enumerate(encoder.layers):
        queries = encoder.queries(number, seq, asked)
        address = (widths.heads, widths.head_dim, widths.ffn, queries)
        if address not in alike:
            alike[address] = _layer_bytes(seq, queries, encoder, room, number)
        found.append(alike[address])
    return tuple(found)


def _layer_bytes(seq: int, queries: int, encoder: Encoder, room: Room, number: int) -> LayerBytes:
    widths, fused = encoder.layers[number], room.fused(encoder)
    heads, head_dim = widths.heads, widths.head_dim
    attention = sum(weight.numel for weight in encoder.attention_weights(number))
    ffn = sum(weight.numel for weight in encoder.ffn_weights(number))
    if room.precision == "bf16":
        copies = (attention + ffn) * room.value_bytes
    else:
        joined = encoder.attention.joined(encoder.hidden, heads, head_dim)
        copies = 0 if room.compiled else joined * FP32
    around = _around(encoder, queries)
    kept = encoder.attention.kept(encoder.hidden, heads, head_dim, seq, queries, fused) + around
    if encoder.norm.kind == "pre" and queries < seq:  # what the queries look at is normed too
        kept += Kept(values=seq * encoder.hidden, fp32=2 * seq)
    ffn_kept = encoder.ffn.kept(encoder.hidden, widths.ffn, queries) + around
    if encoder.dropout.ffn:
        ffn_kept += Kept(masks=queries * widths.ffn)
    return LayerBytes(
        attention_weights=attention * FP32,
        ffn_weights=ffn * FP32,
        copies=copies,
        attention_kept=room.bytes_of(kept),
        ffn_kept=room.bytes_of(ffn_kept),
        attention_working=encoder.attention.working(heads, head_dim, seq, queries, fused)
        * room.value_bytes,
        ffn_working=encoder.ffn.working(widths.ffn, queries) * room.value_bytes,
    )


def batch_bytes(stage: Stage, room: Room) -> int:
    """The rows of a step as text and as corrupted, and on a CPU the next step's, read ahead."""
    reads = sum(isinstance(term.objective, Mlm | Clm | Sbo) for term in stage.objective)
    rows = 2 * LONG * stage.seq  # token ids and segment ids
    # Positions or boundaries, targets and weights of what is predicted.
    predicted = stage.predictions() * reads * (2 * LONG + FP32)
    corrupted = LONG * stage.seq + predicted
    return stage.batch * (rows * (2 if room.device == "cpu" else 1) + corrupted)


def embeddings_kept(stage: Stage) -> Kept:
    """What the embeddings keep of one example, and the states after the last layer."""
    encoder, seq, asked = stage.encoder, stage.seq, stage.asked()
    hidden, embedding = encoder.hidden, encoder.embedding
    dropped = 1 if encoder.dropout.hidden else 0
    states = seq if asked is None else asked
    # One head alone takes what was asked for as it is.
    own = states if asked is None or len(stage.objective) > 1 else 0
    total = Kept(values=own * hidden, masks=dropped * seq * embedding)
    if encoder.norms_embeddings:
        total += Kept(values=seq * embedding, fp32=2 * seq)
    elif encoder.norm.kind == "pre":
        total += Kept(values=states * hidden, fp32=2 * states)
    if encoder.factorised:
        total += Kept(values=seq * embedding)
    return total


def _around(encoder: Encoder, seq: int) -> Kept:
    """The input, mean and deviation of a part's norm, and the mask of its residual branch."""
    dropped = 1 if encoder.dropout.hidden else 0
    return Kept(values=seq * encoder.hidden, fp32=2 * seq, masks=dropped * seq * encoder.hidden)
