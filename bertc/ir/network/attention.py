"""Attention kinds with their settings, weights and operations; ``model.attention`` builds them."""

import math
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, cast

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, ONES, ZEROS, Axis, Dim, Drawn, On, Weight, matrix
from bertc.ir.network import attention_node
from bertc.ir.network.positions import Distances, Ranges
from bertc.ir.own import Own, sizes_of

_BY_SEGMENT: tuple[Axis, Axis] = ("segments", "heads")
_OF_DISTANCES: tuple[Axis, Axis] = ("positions", "hidden")
STRIP = 128
"""Block size in tokens of the relative-position product; larger blocks compute more unused
entries."""


class FullAttention(attention_node.ContentAttention):
    """Full attention: softmax(Q K^T / sqrt(head_dim)) V (Vaswani et al., 3.2)."""

    kind: Literal["full"] = "full"


class LocalAttention(attention_node.ContentAttention):
    """Attention to near tokens in most layers, to all in a few (Beltagy et al. 2020, 3.1).

    A query of a local layer attends to ``window`` / 2 tokens on each side and to itself. Layer i is
    global if ``global_every`` divides i (ModernBERT, global_attn_every_n_layers; 0: none is), or if
    it is one of ``global_layers``.
    """

    kind: Literal["local"] = "local"
    window: Annotated[int, Field(ge=2, le=1_000_000)] = 128  # ModernBERT, sliding_window
    global_every: Annotated[int, Field(ge=0, le=1000)] = 0
    global_layers: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = ()
    positional = ("window",)

    def at(self, layer: int) -> Self:
        """The same without a window, or with one in every layer."""
        interval, written = self.global_every, layer in self.global_layers
        full = written or (interval > 0 and layer % interval == 0)
        return self.model_copy(update={"global_every": int(full), "global_layers": ()})

    @property
    def reach(self) -> int | None:
        return None if self.global_every == 1 else self.window // 2


class RelativeAttention(attention_node.AttentionNode):
    """Attention by content and by relative distance (Dai et al. 2019, 3.3).

    softmax(((q + u) K^T + (q + v) (W_r R)^T) / sqrt(head_dim)) V, with R the sinusoids of distances
    and no biases in projections. ``untie``: each layer has its own u and v (XLNet), else all layers
    share them. ``segments`` adds a score for whether query and key are in the same segment (Yang et
    al. 2019, 2.5). ``clamp``: larger distances count as this one; 0: no limit.
    """

    kind: Literal["relative"] = "relative"
    projects: ClassVar[bool] = True
    distances = Distances(backward=True, clamps=True, in_pieces=True)
    untie: bool = False
    segments: bool = False
    clamp: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @property
    def compares_segments(self) -> bool:
        return self.segments

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        inner: Dim = ("heads", widths.inner)
        outer: Dim = ("hidden", widths.hidden)
        maps = [
            matrix(f"{name}.{part}", inner, outer, init, "attention")
            for part in ("query", "key", "value", "distance")
        ]
        maps.append(matrix(f"{name}.output", outer, inner, init, "attention"))
        if self.untie:
            maps += _biases(name, ("content_bias", "distance_bias"), widths.inner, init)
        if self.segments:
            maps += _biases(name, ("segment_bias",), widths.inner, init)
            shape, axes = (2, widths.inner), _BY_SEGMENT
            maps.append(Weight(f"{name}.segment", shape, axes, init, "attention", "table"))
        return tuple(maps)

    def common_weights(self, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        if self.untie:
            return ()
        return _biases("relative", ("content_bias", "distance_bias"), widths.inner, init)

    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        w, inner, future = widths, widths.inner, 1 if call.causal else call.tokens
        distances, times = call.keys + future, call.rows * widths.heads
        in_line = future if call.queries >= future else 0
        met = [(s.rows, s.end - s.begin) for s in strips(call.keys, in_line, distances)]
        met += [(call.queries - in_line, distances)] if call.queries > in_line else []
        gathered = call.rows * (call.directions - 1) * distances * inner
        scores = call.states * w.heads
        of_segments = (
            op.Product(call.queries, w.head_dim, 1, times, maps=0, of_weights=True),
            op.Pointwise("add", scores * call.keys, kept=scores),
        )
        return (
            *attention_node.query_key_value(w, call),
            op.Product(
                call.directions * distances, w.hidden, inner, constant=True, keeps_rows=False
            ),
            *((op.Copy(gathered, kept=True),) if gathered else ()),
            *(op.Product(n, w.head_dim, many, times, maps=0, of_weights=True) for n, many in met),
            # Scores of distances are shifted to their keys, and added with the mask.
            op.Copy(scores * call.keys),
            op.Pointwise("add", scores * call.keys),
            *(of_segments if self.segments else ()),
            op.Attention(
                call.rows, call.queries, call.keys, w.heads, w.head_dim, rate > 0, mask="scores"
            ),
            op.Product(call.states, inner, w.hidden, names=("output",)),
        )

    def shared_operations(self, call: op.Call) -> op.Operations:
        """The same-segment mask, computed once for all layers."""
        return (op.Copy(call.states * call.keys, kept=True),) if self.segments else ()


class DisentangledAttention(attention_node.GatedAttention):
    """Attention by content, and of content to distances and back (He et al. 2021, 3.1).

    softmax((Q K^T + Q K_r^T + Q_r K^T) / sqrt(3 head_dim)) V, with K_r and Q_r the rows of one
    table at the distance from query to key. All layers share the table, which is normalised and has
    the dropout of states; each layer projects it by its own maps of keys and queries (DeBERTa-v3,
    share_att_key, norm_rel_ebd). Distances have ``buckets`` rows in each direction: the nearest
    half one each, those up to ``distance`` logarithmic ranges, those beyond the last row. Without
    ``beyond`` they have the row of the last range, and there are 2 x buckets - 1 rows (LTG-BERT).
    """

    kind: Literal["disentangled"] = "disentangled"
    projects: ClassVar[bool] = True
    distances = Distances()
    system: ClassVar[Literal["deberta"] | None] = "deberta"
    buckets: Annotated[int, Field(ge=4, le=100_000)] = 256  # DeBERTa-v3, position_buckets
    distance: Annotated[int, Field(ge=4, le=1_000_000)] = 512  # max_relative_positions
    beyond: On = True
    positional = ("buckets", "distance")

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return 2 * self.buckets - (not self.beyond)

    @property
    def ranges(self) -> Ranges:
        single = self.buckets // 2
        return Ranges(self.buckets, single, self.distance, least=single + 2)

    def row_of(self, apart: int) -> int:
        """The table's row for a key ``apart`` tokens before its query, behind it if negative."""
        near, far = self.buckets // 2, min(abs(apart), self.distance - (not self.beyond))
        if far > near:
            share = math.log(far / near) / math.log((self.distance - 1) / near)
            far = near + math.ceil(share * (near - 1))
        row = self.rows // 2 + (far if apart > 0 else -far)
        return min(max(row, 0), self.rows - 1)

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        return attention_node.projection_weights(name, widths, init, widths.heads)

    def common_weights(self, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        name, width, axes = "relative", (widths.hidden,), _OF_DISTANCES[1:]
        shape = (self.rows, widths.hidden)
        return (
            Weight(f"{name}.distance.weight", shape, _OF_DISTANCES, init, "attention", "table"),
            Weight(f"{name}.norm.weight", width, axes, ONES, "attention", "norm"),
            Weight(f"{name}.norm.bias", width, axes, ZEROS, "attention", "norm"),
        )

    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        w, rows, times = widths, self.rows, call.rows * widths.heads
        scores = call.states * w.heads * call.keys
        return (
            *attention_node.query_key_value(w, call),
            op.Copy((call.states + call.context) * w.inner),  # queries and keys, scaled
            op.Product(
                rows, w.hidden, 2 * w.inner,
                maps=2, keeps_rows=False, of_weights=True, names=("query", "key"),
            ),
            op.Product(call.queries, w.head_dim, rows, times, maps=0, of_weights=True),
            op.Product(call.keys, w.head_dim, rows, times, maps=0, of_weights=True),
            # Scores of rows are gathered by distance, and added, as the mask is.
            op.Copy(2 * scores),
            op.Pointwise("add", 2 * scores),
            op.Attention(
                call.rows, call.queries, call.keys, w.heads, w.head_dim, rate > 0, mask="scores"
            ),
            op.Product(call.states, w.inner, w.hidden, names=("output",)),
        )  # fmt: skip

    def shared_operations(self, call: op.Call) -> op.Operations:
        """The distances of queries that are a subset, 64 bits each; all others are alike."""
        return (op.Copy(2 * call.states * call.keys, kept=True),) if call.selects else ()

    def common_operations(self, widths: op.Widths) -> op.Operations:
        return (op.Norm(self.rows, widths.hidden, keeps_input=False),)


class Strip(NamedTuple):
    """A block of queries starting at ``first``, and the range of distances it is scored against."""

    first: int
    rows: int
    begin: int
    end: int


def strips(context: int, rows: int, distances: int) -> list[Strip]:
    """Blocks of the last ``rows`` positions of a context, each against the distances it needs.

    Entry i of the distances is context - 1 - i. If distances to later keys are left out, every
    block needs all of them.
    """
    if distances < context + rows:
        return [Strip(0, rows, 0, distances)]
    blocks = []
    for first in range(0, rows, STRIP):
        many = min(STRIP, rows - first)
        begin = rows - first - many
        blocks.append(Strip(first, many, begin, begin + context + many))
    return blocks


def _biases(name: str, parts: tuple[str, ...], width: int, init: Drawn) -> tuple[Weight, ...]:
    """Vectors added to queries, initialised and decayed like matrices.

    The releases do so too (XLNet, model_utils.py, include_in_weight_decay).
    """
    return tuple(
        Weight(f"{name}.{part}", (width,), ("heads",), init, "attention", "matrix")
        for part in parts
    )


class OwnAttention(Own, attention_node.AttentionNode):
    """A module of the user's own, from states (b, s, h) and a mask to what is added to them.

    ``full_every``: layers whose number it divides have full attention; 0: none.
    """

    kind: Literal["own"] = "own"
    full_every: Annotated[int, Field(ge=0, le=1000)] = 0

    def at(self, layer: int) -> Self:
        """Full attention, or this part."""
        full = self.full_every and layer % self.full_every == 0
        return cast(Self, FullAttention()) if full else super().at(layer)

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        return tuple(self.own_weights(f"{name}.own", sizes_of(widths), "attention"))

    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        """Count all states, of which only the queries are read."""
        selected = (op.Copy(call.states * widths.hidden),) if call.selects else ()
        return *self.own_operations(sizes_of(widths), call.rows, call.tokens), *selected


Attention = Annotated[
    FullAttention | LocalAttention | RelativeAttention | DisentangledAttention | OwnAttention,
    BY_KIND,
]
"""The closed union of attention kinds."""
