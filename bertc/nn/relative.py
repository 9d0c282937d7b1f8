"""Attention that knows how far tokens stand from each other.

Axes: b batch, n heads, s context, q tokens that ask, d head_dim, h hidden, l distances.
"""

import torch
from einops import rearrange

from bertc.ir.attention import RelativeAttention as RelativeNode
from bertc.ir.encoder import Encoder, LayerWidths
from bertc.nn.attend import attend
from bertc.nn.part import AttentionPart, joined
from bertc.nn.visible import Relation, Visible
from bertc.nn.waves import sinusoids
from bertc.nn.weights import Linear, Table, parameter


def encode_distances(
    node: RelativeNode, context: int, ahead: int, like_bsh: torch.Tensor
) -> torch.Tensor:
    """Sines, then cosines, of the distances from context - 1 down to -ahead, (l, h).

    As Transformer-XL encodes them (mem_transformer.py, PositionalEmbedding).
    """
    far_l = torch.arange(context - 1, -ahead - 1, -1, device=like_bsh.device).float()
    if node.clamp:
        far_l = far_l.clamp(-node.clamp, node.clamp)
    return sinusoids(far_l, like_bsh.shape[2]).to(like_bsh.dtype)


class RelativeAttention(AttentionPart):
    """Scores of content and of distance, and of segments if asked for (Dai et al. 2019, 3.3)."""

    def __init__(self, table: Table, name: str, node: Encoder, widths: LayerWidths) -> None:
        super().__init__(table, name, node)
        assert isinstance(node.attention, RelativeNode), "this is its module"
        self.query = Linear(table, f"{name}.query")
        self.key = Linear(table, f"{name}.key")
        self.value = Linear(table, f"{name}.value")
        self.distance = Linear(table, f"{name}.distance")
        self.output = Linear(table, f"{name}.output")
        self.heads = widths.heads
        self.dropout = node.dropout.attention
        own = node.attention.untie
        self.content_bias = parameter(table[f"{name}.content_bias"]) if own else None
        self.distance_bias = parameter(table[f"{name}.distance_bias"]) if own else None
        told = node.attention.segments
        self.segment_bias = parameter(table[f"{name}.segment_bias"]) if told else None
        self.segment = parameter(table[f"{name}.segment"]) if told else None

    def forward(
        self, x_bqh: torch.Tensor, context_bsh: torch.Tensor | None, visible: Visible
    ) -> torch.Tensor:
        """As every attention part."""
        assert isinstance(visible, Relation), "the encoder says how tokens stand to each other"
        n, relation = self.heads, visible
        if context_bsh is None:
            mapped = joined((self.query, self.key, self.value), x_bqh)
        else:
            mapped = (self.query(x_bqh), *joined((self.key, self.value), context_bsh))
        query_bqw, key_bsw, value_bsw = mapped
        key, value = (rearrange(y, "b s (n d) -> b n s d", n=n) for y in (key_bsw, value_bsw))
        by_content = self._biased(query_bqw, self.content_bias, relation.content_bias)
        scores_bnqs = self._of_distances(query_bqw, relation, key.shape[2])
        if self.segment is not None and relation.same is not None:
            scores_bnqs = scores_bnqs + self._of_segments(query_bqw, relation.same)
        scores_bnqs = scores_bnqs * key.shape[3] ** -0.5
        if relation.mask is not None:
            scores_bnqs = scores_bnqs.masked_fill(~relation.mask, float("-inf"))
        rate = self.dropout if self.training else 0.0
        mixed_bnqd = attend(by_content, key, value, scores_bnqs, rate)
        y_bqh: torch.Tensor = self.output(rearrange(mixed_bnqd, "b n q d -> b q (n d)"))
        return y_bqh

    def _biased(
        self, query_bqw: torch.Tensor, own: torch.Tensor | None, common: torch.Tensor | None
    ) -> torch.Tensor:
        bias_w = common if own is None else own
        assert bias_w is not None, "a layer without biases of its own is given those of all"
        return rearrange(
            query_bqw + bias_w.to(query_bqw.dtype), "b q (n d) -> b n q d", n=self.heads
        )

    def _of_distances(
        self, query_bqw: torch.Tensor, relation: Relation, context: int
    ) -> torch.Tensor:
        """Scores (b, n, q, s): of the distance from the token that asks to each key."""
        biased_bnqd = self._biased(query_bqw, self.distance_bias, relation.distance_bias)
        distance_ndl = rearrange(
            self.distance(relation.distances), "l (n d) -> n d l", n=self.heads
        )
        # One product a head for all rows: they have the distances in common.
        scores = rearrange(biased_bnqd, "b n q d -> n (b q) d") @ distance_ndl
        scores_bnql = rearrange(scores, "n (b q) l -> b n q l", b=len(query_bqw))
        return aligned(scores_bnql, context, relation.places)

    def _of_segments(self, query_bqw: torch.Tensor, same_b1qs: torch.Tensor) -> torch.Tensor:
        """Scores (b, n, q, s): one for keys in the query's own segment, one for all others."""
        assert self.segment is not None, "asked only where there are segments"
        table_n2d = rearrange(self.segment.to(query_bqw.dtype), "t (n d) -> n t d", n=self.heads)
        scores_bnq2 = self._biased(query_bqw, self.segment_bias, None) @ table_n2d.mT
        own, other = scores_bnq2[..., :1], scores_bnq2[..., 1:]
        return torch.where(same_b1qs, own, other)


def aligned(
    scores_bnql: torch.Tensor, context: int, places_bq: torch.Tensor | None
) -> torch.Tensor:
    """Scores by distance (b, n, q, l) as scores by key (b, n, q, s).

    Entry i is the distance context - 1 - i. Without ``places`` row j of q stands at
    context - q + j, so that its keys begin one entry earlier than those of the row before.
    """
    b, n, q, l = scores_bnql.shape
    if places_bq is None:
        # Rows laid end to end and cut one shorter: each moves one place against the one before.
        flat = scores_bnql.flatten(2)[..., q - 1 : q - 1 + q * (l - 1)]
        return flat.unflatten(2, (q, l - 1))[..., :context]  # type: ignore[no-untyped-call, no-any-return]
    lane_s = torch.arange(context, device=places_bq.device)
    # Later keys may have no distance, where nobody sees them.
    entry_bqs = (context - 1 - places_bq[:, :, None] + lane_s).clamp(max=l - 1)
    return scores_bnql.gather(3, entry_bqs[:, None].expand(b, n, q, context))
