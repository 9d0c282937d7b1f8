"""Position kinds with their settings, weights and operations, and distances as scores know them."""

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Constant, Dim, Drawn, Node, Normal, Off, Weight, Width, matrix
from bertc.ir.network.angles import PLAIN_TURNS, Scaling
from bertc.ir.own import Own

SHORTEST = 8
"""Tokens of the shortest row."""


class Ranges(NamedTuple):
    """Distances by rows of a table of ``buckets``: near ones have a row each, others share.

    Those up to ``single`` have a row of their own; ranges up to ``distance`` have the others, which
    takes at least ``least``.
    """

    buckets: int
    single: int
    distance: int
    least: int

    @property
    def problem(self) -> str:
        """The reason why ``distance`` is too short; empty if it is not."""
        if self.distance >= self.least:
            return ""
        reason = f"{self.buckets} buckets are of single distances up to {self.single}, and "
        return f"{reason}distance = {self.distance} leaves nothing to the others"


class Distances(NamedTuple):
    """Scores by distance, which need no position embeddings and allow a memory before rows.

    ``backward``: rows may be reversed. ``clamps``: it has a ``clamp`` that evaluation may set.
    ``in_pieces``: its steps depend on the length of a row in more than sizes.
    """

    backward: bool = False
    clamps: bool = False
    in_pieces: bool = False


Theta = Annotated[float, Field(gt=1, le=1e12)]


class _Positions(Node):
    """The base of position kinds; defaults here are those of vectors added to embeddings.

    ``biases_scores``: a bias is added to scores, so that they are no products of queries and keys.
    ``by_head``: heads differ in more than the weights of a layer, so that none can be removed.
    """

    biases_scores: ClassVar[bool] = False
    by_head: ClassVar[bool] = False

    @property
    def in_attention(self) -> bool:
        """True if queries and keys, or their scores, depend on positions; embeddings do not."""
        return self.biases_scores

    @property
    def ranges(self) -> Ranges | None:
        return None

    @property
    def ties_biases(self) -> bool:
        """True if layers share what heads have, so that all need as many."""
        return any("heads" in weight.axes for weight in self.common_weights(1, Normal()))

    def common_weights(self, heads: int, init: Drawn) -> tuple[Weight, ...]:
        return ()

    def layer_weights(self, name: str, widths: op.Widths) -> tuple[Weight, ...]:
        """Weights that the attention of a layer has."""
        return ()

    def in_embeddings(self, width: int, call: op.Call) -> op.Operations:
        """The operations that give embeddings their positions."""
        return ()

    def in_layer(self, attention: op.Operations, widths: op.Widths, call: op.Call) -> op.Operations:
        """The operations ``attention`` of a layer's attention, with those of the positions."""
        if not self.biases_scores:
            return attention
        scored = (
            replace(operation, mask="bias") if isinstance(operation, op.Attention) else operation
            for operation in attention
        )
        return (*scored, op.Copy(widths.heads * call.queries * call.keys))


class TablePositions(_Positions):
    """The base of kinds with position embeddings.

    Tokens with the id ``padding``, -1: none, have no position and count for none: theirs is the row
    before the first (modeling_roberta.py, create_position_ids_from_input_ids).
    """

    kind: str
    rows: Width
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    padding: Annotated[int, Field(ge=-1, le=1_000_000, exclude_if=(-1).__eq__)] = -1
    positional = ("rows", "offset")

    def weights(self, name: str, width: Dim, init: Drawn) -> tuple[Weight, ...]:
        """The table, initialised by ``initializer=normal(positions=...)`` if that is set."""
        if isinstance(init, Normal) and init.positions:
            init = Normal(std=init.positions)
        return (matrix(name, ("positions", self.rows), width, init, "embeddings", "table"),)

    def in_embeddings(self, width: int, call: op.Call) -> op.Operations:
        return (op.Lookup(call.states, width, self.rows),)

    @property
    def room(self) -> int | None:
        """Maximum row length in tokens."""
        return self.rows - self.offset


class LearnedPositions(TablePositions):
    """A table of position embeddings: ``rows`` rows, of which the first ``offset`` are unused.

    RoBERTa has 514 rows with offset 2 (fairseq LearnedPositionalEmbedding, padding_idx + 1).
    """

    kind: Literal["learned"] = "learned"
    bare_number = ("rows",)


class BucketedPositions(TablePositions):
    """Position embeddings, and a bias of scores by distance, one for each head and range.

    Raffel et al. 2020, 2.1; MPNet (modeling_mpnet.py, relative_position_bucket), whose layers share
    the biases. Each direction has half of the ``buckets``: of those the nearest half is of single
    distances, the others are logarithmic ranges up to ``distance``, the last is of all beyond.
    """

    kind: Literal["bucketed"] = "bucketed"
    buckets: Annotated[int, Field(ge=4, le=10_000)] = 32  # MPNetConfig
    distance: Annotated[int, Field(ge=2, le=1_000_000)] = 128  # relative_position_bucket
    biases_scores = by_head = True

    @property
    def ranges(self) -> Ranges:
        single = self.buckets // 4
        return Ranges(self.buckets, single, self.distance, least=single + 1)

    def row_of(self, apart: int) -> int:
        """The bucket of a key ``apart`` tokens before its query, behind it if negative."""
        half, near, far = self.buckets // 2, self.buckets // 4, abs(apart)
        if far > near:
            share = math.log(far / near) / math.log(self.distance / near)
            # What is a whole number stays one in spite of rounding.
            far = min(half - 1, near + math.floor(share * (half - near) + 1e-9))
        return min(far, half - 1) + (half if apart < 0 else 0)

    def common_weights(self, heads: int, init: Drawn) -> tuple[Weight, ...]:
        rows: Dim = ("positions", self.buckets)
        return (matrix("relative.distance", rows, ("heads", heads), init, "attention", "table"),)


class _Unlearned(_Positions):
    """Positions without weights, for rows of any length."""

    rows: ClassVar[int] = 0
    offset: ClassVar[int] = 0
    room: ClassVar[int | None] = None

    def weights(self, name: str, width: Dim, init: Drawn) -> tuple[Weight, ...]:
        return ()


class SinusoidalPositions(_Unlearned):
    """Sines, then cosines, of the position (Vaswani et al., 3.5): waves of 2 pi 10,000^(i / half).

    Sines and cosines are concatenated as in fairseq's SinusoidalPositionalEmbedding, which divides
    by half - 1 and starts at position 2. ``scaled``: times one learned number, at first width^-1/2
    (Hua et al. 2022, FLASH; Geiping and Goldstein 2023, ScaledSinosoidal).
    """

    kind: Literal["sinusoidal"] = "sinusoidal"
    scaled: Off = False

    def weights(self, name: str, width: Dim, init: Drawn) -> tuple[Weight, ...]:
        first = Constant(value=width[1] ** -0.5)
        scale = Weight(f"{name}.scale", (1,), ("positions",), first, "embeddings", "table")
        return (scale,) if self.scaled else ()


class NoPositions(_Unlearned):
    """No position embeddings; attention may use distances (Transformer-XL, XLNet)."""

    kind: Literal["none"] = "none"


class RotaryPositions(_Unlearned):
    """Queries and keys turned by angles proportional to their positions (Su et al. 2021, 3.2).

    Pair i of the first ``share`` of a head, d numbers, turns by position / scale x theta^(-2i / d):
    numbers i and i + d/2 (``half``, GPT-NeoX and ModernBERT) or 2i and 2i + 1 (``interleaved``, the
    paper and NeoBERT). ``local_theta`` is that of layers with a window. ``scale`` stretches the
    positions of a trained network over longer rows (Chen et al. 2023, 2.3), ``scaled`` slow turns.
    ``rates=fp16``: powers of theta are rounded to that, as where a whole network was trained in it
    (ESM-2).
    """

    kind: Literal["rotary"] = "rotary"
    theta: Theta = 10_000.0
    local_theta: Theta = 10_000.0
    pairs: Literal["half", "interleaved"] = "half"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    scale: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    rates: Annotated[Literal["fp32", "fp16"], Field(exclude_if="fp32".__eq__)] = "fp32"
    scaled: Annotated[Scaling, Field(exclude_if=PLAIN_TURNS.__eq__)] = PLAIN_TURNS
    positional = ("theta", "local_theta")

    @property
    def in_attention(self) -> bool:
        return True

    def rotary_dims(self, head_dim: int) -> int:
        """Numbers of a head that turn."""
        return round(self.share * head_dim)

    def in_layer(self, attention: op.Operations, widths: op.Widths, call: op.Call) -> op.Operations:
        """Queries and keys are written anew; they are saved as inputs of the scores."""
        width = widths.heads * self.rotary_dims(widths.head_dim)
        return (*attention, op.Copy((call.states + call.context) * width))


class AlibiPositions(_Unlearned):
    """A bias of scores: minus the distance between query and key, times a slope of each head.

    Press et al. 2022, section 3; in both directions alike as in MosaicBERT (bert_layers.py,
    rebuild_alibi_tensor). Slopes of n = 2^k heads are 2^(-8/n), 2^(-16/n), ..., 1/256; more heads
    take every other slope of 2n heads.
    """

    kind: Literal["alibi"] = "alibi"
    biases_scores = by_head = True


class OwnPositions(_Unlearned, Own):
    """A module of the user's own, from vectors and their positions to new vectors.

    Those are embeddings (b, s, e), or with ``on=heads`` queries and keys (b, s, n, d).
    """

    kind: Literal["own"] = "own"
    on: Literal["embeddings", "heads"] = "embeddings"

    @property
    def in_attention(self) -> bool:
        return self.on == "heads"

    def weights(self, name: str, width: Dim, init: Drawn) -> tuple[Weight, ...]:
        sizes = {"hidden": width[1]}
        return () if self.in_attention else (*self.own_weights(f"{name}.own", sizes, "embeddings"),)

    def layer_weights(self, name: str, widths: op.Widths) -> tuple[Weight, ...]:
        sizes = {"hidden": widths.head_dim}
        return (*self.own_weights(f"{name}.own_turn", sizes, "attention"),) * self.in_attention

    def in_embeddings(self, width: int, call: op.Call) -> op.Operations:
        sizes = {"hidden": width}
        return () if self.in_attention else self.own_operations(sizes, call.rows, call.tokens)

    def in_layer(self, attention: op.Operations, widths: op.Widths, call: op.Call) -> op.Operations:
        """Queries and keys, which may be of other tokens."""
        if not self.in_attention:
            return attention
        turned = (
            operation
            for tokens in (call.queries, call.keys)
            for operation in self.own_operations({"hidden": widths.head_dim}, call.rows, tokens)
        )
        return (*attention, *turned)


Positions = Annotated[
    LearnedPositions | BucketedPositions | SinusoidalPositions | RotaryPositions | AlibiPositions
    | NoPositions | OwnPositions,
    BY_KIND,
]  # fmt: skip
"""The closed union of position kinds."""
