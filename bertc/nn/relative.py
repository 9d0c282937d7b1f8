"""Attention that knows how far tokens stand from each other.

Axes: b batch, n heads, s context, q tokens that ask, d head_dim, h hidden, l distances.
"""

from typing import Any

import torch
from einops import rearrange

from bertc.ir.network.attention import RelativeAttention as RelativeNode
from bertc.ir.network.attention import strips
from bertc.ir.network.encoder import Encoder, LayerWidths
from bertc.nn.attend import attend, rows_at_once
from bertc.nn.masks import Relation, Visible
from bertc.nn.part import AttentionPart, joined
from bertc.nn.waves import sinusoids
from bertc.nn.weights import Linear, Table, parameter


def encode_distances(
    node: RelativeNode, context: int, ahead: int, both: bool, like_bsh: torch.Tensor
) -> torch.Tensor:
    """Sines, then cosines, of the distances from context - 1 down to -ahead, (l, h).

    As Transformer-XL encodes them (mem_transformer.py, PositionalEmbedding). Of ``both`` ways those
    of text that runs backward follow, negated: (2, l, h) (XLNet modeling.py, bi_data).
    """
    far_l = torch.arange(context - 1, -ahead - 1, -1, device=like_bsh.device).float()
    if node.clamp:
        far_l = far_l.clamp(-node.clamp, node.clamp)
    if both:
        ways = torch.stack([sinusoids(way_l, like_bsh.shape[2]) for way_l in (far_l, -far_l)])
        return ways.to(like_bsh.dtype)
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
        distance = rearrange(self.distance(relation.distances), "... l (n d) -> ... n d l", n=n)
        mixed = [
            self._mixed(query_bqw[rows], key[rows], value[rows], distance, relation.of_rows(rows))
            for rows in rows_at_once(len(key), n * query_bqw.shape[1] * key.shape[2], query_bqw)
        ]
        mixed_bnqd = mixed[0] if len(mixed) == 1 else torch.cat(mixed)
        y_bqh: torch.Tensor = self.output(rearrange(mixed_bnqd, "b n q d -> b q (n d)"))
        return y_bqh

    def _mixed(
        self,
        query_bqw: torch.Tensor,
        key_bnsd: torch.Tensor,
        value_bnsd: torch.Tensor,
        distance: torch.Tensor,
        relation: Relation,
    ) -> torch.Tensor:
        """The values that tokens see (b, n, q, d), of ``distance`` (n, d, l) or (2, n, d, l)."""
        by_content = self._biased(query_bqw, self.content_bias, relation.content_bias)
        scores_bnqs = self._of_distances(query_bqw, distance, relation, key_bnsd.shape[2])
        if relation.mask is not None:
            scores_bnqs = scores_bnqs + relation.mask
        if self.segment is not None and relation.same is not None:
            # The score of another segment is that of all keys: it only moves them together.
            favour_bnq1 = self._favour(query_bqw)
            scores_bnqs = torch.addcmul(scores_bnqs, favour_bnq1, relation.same)
        rate = self.dropout if self.training else 0.0
        mixed_bnqd = attend(by_content, key_bnsd, value_bnsd, scores_bnqs, rate)
        return mixed_bnqd if relation.sees is None else mixed_bnqd * relation.sees

    def _biased(
        self, query_bqw: torch.Tensor, own: torch.Tensor | None, common: torch.Tensor | None
    ) -> torch.Tensor:
        bias_w = common if own is None else own
        assert bias_w is not None, "a layer without biases of its own is given those of all"
        return rearrange(
            query_bqw + bias_w.to(query_bqw.dtype), "b q (n d) -> b n q d", n=self.heads
        )

    def _of_distances(
        self, query_bqw: torch.Tensor, distance: torch.Tensor, relation: Relation, context: int
    ) -> torch.Tensor:
        """Scores (b, n, q, s): of the distance from the token that asks to each key."""
        biased_bnqd = self._biased(query_bqw, self.distance_bias, relation.distance_bias)
        biased_bnqd = biased_bnqd * biased_bnqd.shape[3] ** -0.5
        if relation.backward is not None:
            distance = distance.index_select(0, relation.backward)
        places, (b, _, q, _), distances = relation.places, biased_bnqd.shape, distance.shape[-1]

        def met(first: int, end: int, nearest: int, farthest: int) -> torch.Tensor:
            asking, meeting = biased_bnqd[:, :, first:end], distance[..., nearest:farthest]
            if relation.backward is None:
                # One product a head for all rows: they have the distances in common.
                scores = rearrange(asking, "b n q d -> n (b q) d") @ meeting
                scores_nbql: torch.Tensor = rearrange(scores, "n (b q) l -> n b q l", b=b)
            else:
                scores_nbql = (asking @ meeting).transpose(0, 1)
            return scores_nbql

        stand = q - (0 if places is None else places.shape[1])
        pieces = [
            in_line(met(first, first + rows, begin, end), context)
            for first, rows, begin, end in strips(context, stand, distances)
        ]
        if places is not None:
            whole = met(stand, q, 0, distances)
            pieces.append(placed(whole, context, places))
        scores_nbqs = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=2)
        return scores_nbqs.transpose(0, 1)

    def _favour(self, query_bqw: torch.Tensor) -> torch.Tensor:
        """Scores (b, n, q, 1): how much more a key counts in the query's own segment."""
        assert self.segment is not None, "asked only where there are segments"
        table_2w = self.segment.to(query_bqw.dtype)
        table_nd1 = rearrange(table_2w[0] - table_2w[1], "(n d) -> n d 1", n=self.heads)
        biased_bnqd = self._biased(query_bqw, self.segment_bias, None)
        favour_bnq1: torch.Tensor = (biased_bnqd * biased_bnqd.shape[3] ** -0.5) @ table_nd1
        return favour_bnq1


def in_line(scores_nbql: torch.Tensor, context: int) -> torch.Tensor:
    """Scores by distance (n, b, q, l) as scores by key (n, b, q, s).

    The keys of a row begin one entry earlier than those of the row before, and those of the last
    row at the first.
    """
    _, _, q, l = scores_nbql.shape
    # Rows laid end to end and cut one shorter: each moves one place against the one before.
    flat = scores_nbql.flatten(2)[..., q - 1 : q - 1 + q * (l - 1)]
    return flat.unflatten(2, (q, l - 1))[..., :context]  # type: ignore[no-untyped-call, no-any-return]


@torch.library.custom_op("bertc::placed", mutates_args=())
def placed(scores_nbql: torch.Tensor, context: int, places_bq: torch.Tensor) -> torch.Tensor:
    """As ``in_line``, of tokens that stand at ``places`` (b, q) in the context.

    Its gradient is gathered as well: torch would scatter, which in one order is a sort.
    """
    # Later keys may have no distance, where nobody sees them.
    return _met(scores_nbql, context - 1 - places_bq, context)


@torch.library.custom_op("bertc::placed_gradient", mutates_args=())
def _placed_gradient(
    gradient_nbqs: torch.Tensor, distances: int, places_bq: torch.Tensor
) -> torch.Tensor:
    context = gradient_nbqs.shape[3]
    key_bql = _lanes(places_bq + 1 - context, distances)
    own_nbql = _met(gradient_nbqs, places_bq + 1 - context, distances)
    return own_nbql.where((key_bql >= 0) & (key_bql < context), 0)


def _met(x_nbql: torch.Tensor, first_bq: torch.Tensor, many: int) -> torch.Tensor:
    """The entries from ``first`` on of each row (n, b, q, many), beyond its ends the last ones."""
    entry_bqs = _lanes(first_bq, many).clamp(0, x_nbql.shape[3] - 1)
    return x_nbql.gather(3, entry_bqs.expand(len(x_nbql), *entry_bqs.shape))


def _lanes(first_bq: torch.Tensor, many: int) -> torch.Tensor:
    return first_bq[:, :, None] + torch.arange(many, device=first_bq.device)


@placed.register_fake
def _(scores_nbql: torch.Tensor, context: int, places_bq: torch.Tensor) -> torch.Tensor:
    return scores_nbql.new_empty(*scores_nbql.shape[:3], context)


@_placed_gradient.register_fake
def _(gradient_nbqs: torch.Tensor, distances: int, places_bq: torch.Tensor) -> torch.Tensor:
    return gradient_nbqs.new_empty(*gradient_nbqs.shape[:3], distances)


def _keep_places(ctx: Any, inputs: tuple[torch.Tensor, int, torch.Tensor], output: Any) -> None:
    scores_nbql, _, places_bq = inputs
    ctx.distances = scores_nbql.shape[3]
    ctx.save_for_backward(places_bq)


def _to_scores(ctx: Any, gradient_nbqs: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    return _placed_gradient(gradient_nbqs, ctx.distances, *ctx.saved_tensors), None, None


placed.register_autograd(_to_scores, setup_context=_keep_places)
