"""Kinds of self-attention: their fields, weights and matmuls."""

from typing import Literal

from bertc.ir.base import Axis, Drawn, Kept, Matmul, Node, Weight, affine


class FullAttention(Node):
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
        self, hidden: int, heads: int, head_dim: int, batch: int, seq: int, queries: int
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
        self, hidden: int, heads: int, head_dim: int, seq: int, queries: int, fused: bool
    ) -> Kept:
        """Input, queries, keys, values, average, and a log-sum-exp a row.

        Not ``fused``: the scores three times instead of once a row: as probabilities, as their
        dropout mask, and dropped out.
        """
        width = heads * head_dim
        gathered = queries if queries < seq else 0
        values = (seq + gathered) * hidden + 2 * (seq + queries) * width
        if fused:
            return Kept(values=values, fp32=heads * queries)
        return Kept(values=values + 3 * heads * queries * seq)

    def working(self, heads: int, head_dim: int, seq: int, queries: int, fused: bool) -> int:
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


Attention = FullAttention
"""The closed union of attention kinds."""
