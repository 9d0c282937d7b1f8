"""Attention kinds, and full attention.

Axes: b batch, q queries, k keys, h hidden, n heads, d head_dim.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import torch
from einops import rearrange
from jaxtyping import Float

from bertc.ir.network.attention import FullAttention as FullNode
from bertc.ir.network.attention import RelativeAttention as RelativeNode
from bertc.ir.network.encoder import Encoder
from bertc.nn.attend import attend, can_varlen
from bertc.nn.attention_part import AttentionPart, fused_linear
from bertc.nn.inputs import EncoderInputs
from bertc.nn.masks import AttentionMask, VarlenOffsets, kernel_mask
from bertc.nn.relative import RelativeAttention
from bertc.nn.weights import Linear, Table


class FullAttention(AttentionPart[FullNode, AttentionMask]):
    """softmax(Q K^T / sqrt(d)) V over all heads, then a projection (Vaswani et al. 2017, 3.2)."""

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__(table, name, node, layer)
        self.query = Linear(table, f"{name}.query")
        self.key = Linear(table, f"{name}.key")
        self.value = Linear(table, f"{name}.value")
        self.output = Linear(table, f"{name}.output")

    def prepare(
        self,
        kind: FullNode,
        inputs: EncoderInputs,
        x_bqh: Float[torch.Tensor, "b q h"],
        shared: Mapping[str, torch.Tensor],
    ) -> AttentionMask:
        """The mask, in the form that the fastest kernel takes."""
        # The kernel for packed sequences has no dropout.
        dropped = self.training and self.dropout > 0
        varlen = not dropped and can_varlen(x_bqh.device, x_bqh.dtype)
        return kernel_mask(inputs, self.causal, varlen)

    def forward(
        self,
        x_bqh: Float[torch.Tensor, "b q h"],
        keys_bkh: Float[torch.Tensor, "b k h"] | None,
        context: AttentionMask,
    ) -> Float[torch.Tensor, "b q h"]:
        """New states (b, q, h) of the queries."""
        if keys_bkh is None:
            mapped = fused_linear((self.query, self.key, self.value), x_bqh)
        elif isinstance(context, VarlenOffsets):  # that kernel needs as many queries as keys
            mapped = fused_linear((self.query, self.key, self.value), keys_bkh)
        else:
            mapped = (self.query(x_bqh), *fused_linear((self.key, self.value), keys_bkh))
        query, key, value = (rearrange(y, "b s (n d) -> b n s d", n=self.heads) for y in mapped)
        mixed_bnqd = attend(query, key, value, context, self.dropout if self.training else 0.0)
        y_bqh: torch.Tensor = self.output(rearrange(mixed_bnqd, "b n q d -> b q (n d)"))
        return y_bqh


def build_attention(table: Table, name: str, node: Encoder, layer: int) -> AttentionPart[Any, Any]:
    """Build the attention of one layer by its kind."""
    kind = node.attention.at(layer)
    match kind:
        case FullNode():
            return FullAttention(table, name, node, layer)
        case RelativeNode():
            return RelativeAttention(table, name, node, layer, kind)
        case _:
            assert_never(kind)
