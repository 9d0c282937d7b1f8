"""Attention kinds, and attention by content.

Axes: b batch, q queries, k keys, h hidden, n heads, d head_dim, w widths of all heads.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, assert_never

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import nn

from bertc.ir.network.attention import FullAttention as FullNode
from bertc.ir.network.attention import LocalAttention as LocalNode
from bertc.ir.network.attention import RelativeAttention as RelativeNode
from bertc.ir.network.attention_node import ContentAttention as ContentNode
from bertc.ir.network.encoder import Encoder
from bertc.nn.attend import attend, can_varlen
from bertc.nn.attention_part import AttentionPart, ProjectedAttention
from bertc.nn.body import Projected
from bertc.nn.inputs import EncoderInputs
from bertc.nn.masks import AttentionMask, Blocks, VarlenOffsets, kernel_mask, mask_of
from bertc.nn.positions import Distances, Rotation, related_by
from bertc.nn.relative import RelativeAttention
from bertc.nn.weights import Linear, Table, parameter

HEAD_EPS = 1e-6
"""Added to the mean square of a head (Qwen3, rms_norm_eps)."""


class ContentContext(NamedTuple):
    """A mask, and what positions do to queries and keys, or to their scores."""

    mask: AttentionMask
    related: Rotation | Distances | None = None

    @property
    def of_all_queries(self) -> bool:
        """True if its kernel needs as many queries as keys, and gives the outputs asked for."""
        return isinstance(self.mask, VarlenOffsets | Blocks)

    def select_queries(self, inputs: EncoderInputs) -> "ContentContext":
        """The context of the output positions."""
        mask, related = self.mask.select_queries(inputs), self.related
        if related is not None and not self.of_all_queries:
            related = related.select_queries(inputs)
        return ContentContext(mask, related)


class HeadNorm(nn.Module):
    """Every head divided by its root mean square, and scaled alike (Zhang and Sennrich 2019)."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.weight = parameter(table[f"{name}.weight"])

    def forward(self, x_bsnd: Float[torch.Tensor, "b s n d"]) -> torch.Tensor:
        """Heads (b, s, n, d) to (b, s, n, d)."""
        return F.rms_norm(x_bsnd, self.weight.shape, self.weight.to(x_bsnd.dtype), HEAD_EPS)


class ContentAttention(ProjectedAttention[ContentNode, ContentContext]):
    """softmax(Q K^T / sqrt(d)) V over all heads, then a projection (Vaswani et al. 2017, 3.2).

    Queries, keys and values are as they are multiplied: after norms and turns, and with the keys
    and values of fewer heads repeated for all heads of queries that share them.
    """

    def __init__(
        self, table: Table, name: str, node: Encoder, layer: int, kind: ContentNode
    ) -> None:
        super().__init__(table, name, node, layer)
        self.output = Linear(table, f"{name}.output")
        self.positions, self.head_dim = node.positions, node.layers[layer].head_dim
        self.key_heads = kind.key_heads(self.heads)
        self.query_norm = HeadNorm(table, f"{name}.query_norm") if kind.qk_norm else None
        self.key_norm = HeadNorm(table, f"{name}.key_norm") if kind.qk_norm else None

    def prepare(
        self,
        kind: ContentNode,
        inputs: EncoderInputs,
        x_bqh: Float[torch.Tensor, "b q h"],
        shared: Mapping[str, torch.Tensor],
    ) -> ContentContext:
        """The mask, in the form that the fastest kernel takes, and angles or distances."""
        windowed = kind.reach is not None
        related = related_by(self.positions, self.head_dim, windowed, inputs)
        if isinstance(related, Distances) and not windowed:
            return ContentContext(mask_of(inputs, self.causal), related)
        # The kernel for packed sequences has no dropout and no biases.
        plain = not (self.training and self.dropout > 0) and not isinstance(related, Distances)
        varlen = plain and can_varlen(x_bqh.device, x_bqh.dtype, windowed)
        return ContentContext(kernel_mask(inputs, self.causal, varlen, kind.reach), related)

    def project(
        self,
        x_bqh: Float[torch.Tensor, "b q h"],
        keys_bkh: Float[torch.Tensor, "b k h"] | None,
        context: ContentContext,
    ) -> Projected:
        """Queries of ``x``; keys and values of ``keys``, None: of ``x``."""
        if keys_bkh is not None and context.of_all_queries:
            return self.project(keys_bkh, None, context)
        query_bqnd, key, value = (
            y.unflatten(2, (-1, self.head_dim))  # type: ignore[no-untyped-call]
            for y in super().project(x_bqh, keys_bkh, context)
        )
        if self.query_norm is not None and self.key_norm is not None:
            query_bqnd, key = self.query_norm(query_bqnd), self.key_norm(key)
        if isinstance(turns := context.related, Rotation):
            query_bqnd = turns.turned(query_bqnd, turns.queries)
            key = turns.turned(key, turns.keys)
        if self.key_heads < self.heads:
            times = self.heads // self.key_heads
            key, value = (y.repeat_interleave(times, dim=2) for y in (key, value))
        return Projected(*(y.flatten(2) for y in (query_bqnd, key, value)))

    def mix(self, projected: Projected, context: ContentContext) -> Float[torch.Tensor, "b q h"]:
        """New states (b, q, h) of the queries."""
        query, key, value = (rearrange(y, "b s (n d) -> b n s d", n=self.heads) for y in projected)
        rate, mask = self.dropout if self.training else 0.0, context.mask
        if isinstance(context.related, Distances):
            assert not isinstance(mask, VarlenOffsets), "that kernel takes no biases"
            mask = context.related.added(self.heads, mask, query.dtype)
        mixed_bnqd = attend(query, key, value, mask, rate)
        y_bqh: torch.Tensor = self.output(rearrange(mixed_bnqd, "b n q d -> b q (n d)"))
        return y_bqh


def build_attention(table: Table, name: str, node: Encoder, layer: int) -> AttentionPart[Any, Any]:
    """Build the attention of one layer by its kind."""
    kind = node.attention.at(layer)
    match kind:
        case FullNode() | LocalNode():
            return ContentAttention(table, name, node, layer, kind)
        case RelativeNode():
            return RelativeAttention(table, name, node, layer, kind)
        case _:
            assert_never(kind)
