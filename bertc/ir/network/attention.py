"""Attention kinds: their settings, weights and operations; ``nn.attention`` has their modules."""

from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Axis, Drawn, Weight, matrix
from bertc.ir.network.attention_node import AttentionNode, query_key_value

_BY_SEGMENT: tuple[Axis, Axis] = ("segments", "heads")
STRIP = 128
"""Tokens whose scores of distances are one product: more would meet more that they cannot use."""


class FullAttention(AttentionNode):
    """Every token sees every other: softmax(Q K^T / sqrt(head_dim)) V (Vaswani et al., 3.2)."""

    kind: Literal["full"] = "full"


class RelativeAttention(AttentionNode):
    """Scores of what a key holds and of how far it stands from the query (Dai et al. 2019, 3.3).

    softmax(((q + u) K^T + (q + v) (W_r R)^T) / sqrt(head_dim)) V, R sines and cosines of distances;
    no map has a bias. ``untie``: each layer has biases u and v of its own (XLNet), else all layers
    share them. ``segments``: a third score says whether both stand in the same segment (Yang et al.
    2019, 2.5). ``clamp``: distances beyond it count as it; 0: none does.
    """

    kind: Literal["relative"] = "relative"
    knows_distances: ClassVar[bool] = True
    knows_directions: ClassVar[bool] = True
    clamps: ClassVar[bool] = True
    untie: bool = False
    segments: bool = False
    clamp: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @property
    def compares_segments(self) -> bool:
        """True where a score says that query and key are in the same segment."""
        return self.segments

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        """Maps of queries, keys, values and distances, the output map, and biases of its own."""
        inner: tuple[Axis, int] = ("heads", widths.inner)
        outer: tuple[Axis, int] = ("hidden", widths.hidden)
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
        """The biases u and v of all layers, where they are tied."""
        if self.untie:
            return ()
        return _biases("relative", ("content_bias", "distance_bias"), widths.inner, init)

    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        """As full attention, with scores of distances, and of segments, that are added.

        Distances are mapped once for all rows of a batch, in each direction: from that of the first
        key behind the last token to that of the last one before the first. Rows that are read in
        two directions have their own copy. Queries beyond the tokens of a row, or only some of
        them, stand anywhere: each meets all distances.
        """
        w, inner, future = widths, widths.inner, 1 if call.causal else call.tokens
        distances, times = call.keys + future, call.rows * widths.heads
        in_line = future if call.queries >= future else 0
        met = [(s.rows, s.end - s.begin) for s in strips(call.keys, in_line, distances)]
        met += [(call.queries - in_line, distances)] if call.queries > in_line else []
        own = call.rows * (call.directions - 1) * distances * inner
        return (
            *query_key_value(w, call),
            op.Product(
                call.directions * distances, w.hidden, inner, constant=True, keeps_rows=False
            ),
            *((op.Copy(own, kept=True),) if own else ()),
            *(op.Product(rows, w.head_dim, many, times, maps=0) for rows, many in met),
            # A row's distances are moved to its keys, and added with the mask.
            op.Copy(call.states * w.heads * call.keys),
            op.Pointwise("add", call.states * w.heads * call.keys),
            *(self._of_segments(w, call) if self.segments else ()),
            op.Attention(
                call.rows, call.queries, call.keys, w.heads, w.head_dim, dropout, mask="scores"
            ),
            op.Product(call.states, inner, w.hidden),
        )

    def _of_segments(self, w: op.Widths, call: op.Call) -> op.Operations:
        scores = call.states * w.heads
        return (
            op.Product(call.queries, w.head_dim, 1, times=call.rows * w.heads, maps=0),
            op.Pointwise("add", scores * call.keys, kept=scores),
        )

    def shared_operations(self, call: op.Call) -> op.Operations:
        """Which keys stand in the query's own segment, once for all layers."""
        return (op.Copy(call.states * call.keys, kept=True),) if self.segments else ()


class Strip(NamedTuple):
    """Some tokens that ask, from the ``first`` on, and which of all distances they meet."""

    first: int
    rows: int
    begin: int
    end: int


def strips(context: int, rows: int, distances: int) -> list[Strip]:
    """The last tokens of a context, so many at once that few meet distances they have no use for.

    Entry i of the distances is context - 1 - i. Where those ahead are left out, all meet all.
    """
    if distances < context + rows:
        return [Strip(0, rows, 0, distances)]
    found = []
    for first in range(0, rows, STRIP):
        many = min(STRIP, rows - first)
        begin = rows - first - many
        found.append(Strip(first, many, begin, begin + context + many))
    return found


def _biases(name: str, parts: tuple[str, ...], width: int, init: Drawn) -> tuple[Weight, ...]:
    """Vectors added to queries; drawn and decayed as matrices are, as the releases do (XLNet,
    model_utils.py, include_in_weight_decay).
    """
    return tuple(
        Weight(f"{name}.{part}", (width,), ("heads",), init, "attention", "matrix")
        for part in parts
    )


Attention = Annotated[FullAttention | RelativeAttention, Field(discriminator="kind")]
"""The closed union of attention kinds."""
