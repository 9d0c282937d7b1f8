"""Attention kinds: their settings, weights and matmuls; ``nn.attention`` has their modules."""

from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from bertc.ir.base import Axis, Drawn, Kept, Matmul, Weight, affine, matrix
from bertc.ir.network.attention_node import AttentionNode

_BY_SEGMENT: tuple[Axis, Axis] = ("segments", "heads")
STRIP = 128
"""Tokens whose scores of distances are one product: more would meet more that they cannot use."""


class FullAttention(AttentionNode):
    """Every token sees every other: softmax(Q K^T / sqrt(head_dim)) V (Vaswani et al., 3.2)."""

    kind: Literal["full"] = "full"

    def weights(
        self, name: str, hidden: int, heads: int, head_dim: int, init: Drawn
    ) -> tuple[Weight, ...]:
        """Query, key and value maps (hidden -> heads x head_dim) and the output map back."""
        inner: tuple[Axis, int] = ("heads", heads * head_dim)
        outer: tuple[Axis, int] = ("hidden", hidden)
        return (
            *affine(f"{name}.query", inner, outer, init, "attention"),
            *affine(f"{name}.key", inner, outer, init, "attention"),
            *affine(f"{name}.value", inner, outer, init, "attention"),
            *affine(f"{name}.output", outer, inner, init, "attention"),
        )

    def matmuls(
        self,
        hidden: int,
        heads: int,
        head_dim: int,
        batch: int,
        seq: int,
        queries: int,
        ahead: int,
        ways: int,
    ) -> tuple[Matmul, ...]:
        """Four projections, the scores and the weighted average.

        ``queries`` of the ``seq`` positions ask, all of them answer.
        """
        width = heads * head_dim
        return (
            Matmul("attention", batch * queries, hidden, width),
            Matmul("attention", batch * seq, hidden, width, times=2),
            Matmul("attention", queries, head_dim, seq, times=batch * heads),
            Matmul("attention", queries, seq, head_dim, times=batch * heads),
            Matmul("attention", batch * queries, width, hidden),
        )

    def kept(
        self,
        hidden: int,
        heads: int,
        head_dim: int,
        seq: int,
        queries: int,
        turned: int,
        fused: bool,
        ordered: bool,
    ) -> Kept:
        """Input, queries, keys, values, average, and a log-sum-exp a row.

        Not ``fused``: the scores as probabilities instead of once a row, and where masks are kept
        also their dropout mask, and dropped out.
        """
        width = heads * head_dim
        gathered = queries if queries != seq else 0
        values = (seq + gathered) * hidden + 2 * (seq + queries) * width
        if fused and ordered:  # its mask as scores, and the average with nothing where it is empty
            values += queries * (seq + width)
        if fused:
            return Kept(values=values, fp32=heads * queries)
        scores = heads * queries * seq
        return Kept(values=values + scores, masks=2 * scores)

    def common_kept(self, seq: int, queries: int) -> int:
        """Values that all layers keep together: none."""
        return 0

    def working(
        self,
        heads: int,
        head_dim: int,
        seq: int,
        queries: int,
        turned: int,
        fused: bool,
    ) -> int:
        """Values that backward holds at once beside what was kept.

        Fused: the gradients of queries, keys and values; else those of the scores and the average.
        """
        width = heads * head_dim
        if fused:
            return (2 * seq + queries) * width
        return queries * heads * seq + seq * width

    def joined(self, hidden: int, heads: int, head_dim: int) -> int:
        """Elements of the weights that one application copies: the three maps side by side."""
        return 3 * hidden * heads * head_dim


class RelativeAttention(AttentionNode):
    """Scores of what a key holds and of how far it stands from the query (Dai et al. 2019, 3.3).

    softmax(((q + u) K^T + (q + v) (W_r R)^T) / sqrt(head_dim)) V, R sines and cosines of distances;
    no map has a bias. ``untie``: each layer has biases u and v of its own (XLNet), else all layers
    share them. ``segments``: a third score says whether both stand in the same segment (Yang et al.
    2019, 2.5). ``clamp``: distances beyond it count as it; 0: none does.
    """

    kind: Literal["relative"] = "relative"
    knows_distances: ClassVar[bool] = True
    untie: bool = False
    segments: bool = False
    clamp: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @property
    def compares_segments(self) -> bool:
        """Whether a score says that query and key stand in the same segment."""
        return self.segments

    def weights(
        self, name: str, hidden: int, heads: int, head_dim: int, init: Drawn
    ) -> tuple[Weight, ...]:
        """Maps of queries, keys, values and distances, the output map, and biases of its own."""
        inner: tuple[Axis, int] = ("heads", heads * head_dim)
        outer: tuple[Axis, int] = ("hidden", hidden)
        maps = [
            matrix(f"{name}.{part}", inner, outer, init, "attention")
            for part in ("query", "key", "value", "distance")
        ]
        maps.append(matrix(f"{name}.output", outer, inner, init, "attention"))
        if self.untie:
            maps += _biases(name, ("content_bias", "distance_bias"), heads * head_dim, init)
        if self.segments:
            maps += _biases(name, ("segment_bias",), heads * head_dim, init)
            shape, axes = (2, heads * head_dim), _BY_SEGMENT
            maps.append(Weight(f"{name}.segment", shape, axes, init, "attention", "table"))
        return tuple(maps)

    def common_weights(self, heads: int, head_dim: int, init: Drawn) -> tuple[Weight, ...]:
        """The biases u and v of all layers, where they are tied."""
        if self.untie:
            return ()
        return _biases("relative", ("content_bias", "distance_bias"), heads * head_dim, init)

    def matmuls(
        self,
        hidden: int,
        heads: int,
        head_dim: int,
        batch: int,
        seq: int,
        queries: int,
        ahead: int,
        ways: int,
    ) -> tuple[Matmul, ...]:
        """Four projections, one of all distances, both scores and the weighted average.

        Distances are mapped once for all rows of a batch: from that of the first of ``seq`` behind
        the last to that of the last ``ahead``, once more where they are read another ``ways``.
        Queries beyond those of the row, or only some of
        them, stand anywhere: each meets all distances.
        """
        width, distances, times = heads * head_dim, seq + ahead, batch * heads
        in_line = ahead if queries >= ahead else 0
        met = [(s.rows, s.end - s.begin) for s in strips(seq, in_line, distances)]
        met += [(queries - in_line, distances)] if queries > in_line else []
        segments = Matmul("attention", queries, head_dim, 1, times=times)
        return (
            Matmul("attention", batch * queries, hidden, width),
            Matmul("attention", batch * seq, hidden, width, times=2),
            Matmul("attention", ways * distances, hidden, width, fixed=True),
            Matmul("attention", queries, head_dim, seq, times=times),
            *(Matmul("attention", rows, head_dim, many, times=times) for rows, many in met),
            *((segments,) if self.segments else ()),
            Matmul("attention", queries, seq, head_dim, times=times),
            Matmul("attention", batch * queries, width, hidden),
        )

    def kept(
        self,
        hidden: int,
        heads: int,
        head_dim: int,
        seq: int,
        queries: int,
        turned: int,
        fused: bool,
        ordered: bool,
    ) -> Kept:
        """As full attention, and the queries once more for each other bias; no kernel is fused.

        Where rows are ``turned`` each has so many distances of its own.
        """
        width = heads * head_dim
        gathered = queries if queries != seq else 0
        values = (seq + gathered) * hidden + (2 * seq + 3 * queries) * width
        if self.segments:
            values += queries * (width + heads)
        values += turned * width
        scores = heads * queries * seq
        return Kept(values=values + scores, masks=0 if fused else 2 * scores)

    def common_kept(self, seq: int, queries: int) -> int:
        """Values that all layers keep together: which keys stand in the query's own segment."""
        return queries * seq if self.segments else 0

    def working(
        self,
        heads: int,
        head_dim: int,
        seq: int,
        queries: int,
        turned: int,
        fused: bool,
    ) -> int:
        """Values that backward holds at once beside what was kept: the gradients of all scores."""
        return 4 * queries * heads * seq + turned * heads * head_dim

    def joined(self, hidden: int, heads: int, head_dim: int) -> int:
        """Elements of the weights that one application copies: the three maps side by side."""
        return 3 * hidden * heads * head_dim


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
