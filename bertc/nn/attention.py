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
from bertc.nn.attention_part import AttentionPart, ProjectedAttention
from bertc.nn.body import Projected
from bertc.nn.inputs import EncoderInputs
from bertc.nn.masks import AttentionMask, VarlenOffsets, kernel_mask
from bertc.nn.relative import RelativeAttention
from bertc.nn.weights import Linear, Table


class FullAttention(ProjectedAttention[FullNode, AttentionMask]):
    """softmax(Q K^T / sqrt(d)) V over all heads, then a projection (Vaswani et al. 2017, 3.2)."""

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__(table, name, node, layer)
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

    def project(
        self,
        x_bqh: Float[torch.Tensor, "b q h"],
        keys_bkh: Float[torch.Tensor, "b k h"] | None,
        context: AttentionMask,
    ) -> Projected:
        """Queries, keys and values; the kernel for packed rows needs as many queries as keys."""
        if keys_bkh is not None and isinstance(context, VarlenOffsets):
            return super().project(keys_bkh, None, context)
        return super().project(x_bqh, keys_bkh, context)

    def mix(self, projected: Projected, context: AttentionMask) -> Float[torch.Tensor, "b q h"]:
        """New states (b, q, h) of the queries."""
        query, key, value = (rearrange(y, "b s (n d) -> b n s d", n=self.heads) for y in projected)
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
