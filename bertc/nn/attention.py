"""The kinds of self-attention.

Axes: b batch, s sequence, q tokens of it that ask, h hidden, n heads, d head_dim.
"""

from typing import assert_never

import torch
from einops import rearrange

from bertc.ir.network.attention import FullAttention as FullNode
from bertc.ir.network.attention import RelativeAttention as RelativeNode
from bertc.ir.network.encoder import Encoder, LayerWidths
from bertc.nn.attend import attend
from bertc.nn.masks import Bounds, Relation, Visible
from bertc.nn.part import AttentionPart, joined
from bertc.nn.relative import RelativeAttention
from bertc.nn.weights import Linear, Table


class FullAttention(AttentionPart):
    """softmax(Q K^T / sqrt(d)) V over all heads, then the output map (Vaswani et al. 2017, 3.2)."""

    def __init__(self, table: Table, name: str, node: Encoder, widths: LayerWidths) -> None:
        super().__init__(table, name, node)
        self.query = Linear(table, f"{name}.query")
        self.key = Linear(table, f"{name}.key")
        self.value = Linear(table, f"{name}.value")
        self.output = Linear(table, f"{name}.output")
        self.heads = widths.heads
        self.dropout = node.dropout.attention

    def forward(
        self, x_bqh: torch.Tensor, context_bsh: torch.Tensor | None, visible: Visible
    ) -> torch.Tensor:
        """As every attention part."""
        assert not isinstance(visible, Relation), "that is for attention that knows distances"
        if context_bsh is None:
            mapped = joined((self.query, self.key, self.value), x_bqh)
        elif isinstance(visible, Bounds):  # that kernel lets every token ask
            mapped = joined((self.query, self.key, self.value), context_bsh)
        else:
            mapped = (self.query(x_bqh), *joined((self.key, self.value), context_bsh))
        query, key, value = (rearrange(y, "b s (n d) -> b n s d", n=self.heads) for y in mapped)
        mixed_bnqd = attend(query, key, value, visible, self.dropout if self.training else 0.0)
        y_bqh: torch.Tensor = self.output(rearrange(mixed_bnqd, "b n q d -> b q (n d)"))
        return y_bqh


def attention_part(table: Table, name: str, node: Encoder, widths: LayerWidths) -> AttentionPart:
    """The attention of one layer, by its kind."""
    match node.attention:
        case FullNode():
            return FullAttention(table, name, node, widths)
        case RelativeNode():
            return RelativeAttention(table, name, node, widths)
        case _:
            assert_never(node.attention)
