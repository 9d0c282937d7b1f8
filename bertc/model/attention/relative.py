"""Attention by content and by the distance between query and key.

Axes: b batch, n heads, q queries, k keys, d head_dim, h hidden, l distances, u query-stream states,
w widths of all heads.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bertc.ir.network.attention import RelativeAttention as RelativeNode, strips
from bertc.ir.network.encoder import Encoder
from bertc.model.attention.attend import attend, join_heads, rows_at_once, split_heads
from bertc.model.attention.masks import Mask, exports, mask_of, rows_of, select_rows
from bertc.model.body import Projected
from bertc.model.inputs import AttentionInputs, EncoderInputs
from bertc.model.layer import ProjectedAttention
from bertc.model.native.kernels import dropout
from bertc.model.positions import encode_distances
from bertc.model.weights import Linear, Table, parameter


class RelativeContext(NamedTuple):
    """A mask, and the relation of queries to keys: they are at the last ones, in order."""

    mask: Float[Tensor, "#b 1 #q k"] | None  # 0 where a query attends to a key, else -inf
    distances: Float[Tensor, "*ways l h"]  # entry i: the key is k - 1 - i before the query
    reversed_rows: Int[Tensor, "b"] | None = None  # 1: reversed; then (2, l, h)
    gathered: Int[Tensor, "b u"] | None = None  # the keys that the last queries are at
    same_segment: Float[Tensor, "b 1 q k"] | None = None  # 1 if both are in one, else 0
    has_keys: Bool[Tensor, "b 1 q 1"] | None = None  # as of ``Mask``
    content_bias: Float[Tensor, "w"] | None = None  # if all layers share it
    distance_bias: Float[Tensor, "w"] | None = None

    def select_queries(self, inputs: EncoderInputs, at_bq: Int[Tensor, "b q"]) -> "RelativeContext":
        """The context of the queries at some positions."""
        selected = {
            name: select_rows(full, at_bq)
            for name in ("mask", "same_segment", "has_keys")
            if (full := getattr(self, name)) is not None
        }
        lane_s = torch.arange(inputs.token_ids.shape[1], device=at_bq.device)
        lanes_bq = inputs.in_queries(lane_s[None]).expand(at_bq.shape[0], -1)
        return self._replace(gathered=lanes_bq.gather(1, at_bq) + inputs.remembered, **selected)


class RelativeAttention(ProjectedAttention[RelativeNode, RelativeContext]):
    """Attention by scores of content, distance and optionally segments (Dai et al. 2019, 3.3)."""

    def __init__(
        self, table: Table, name: str, node: Encoder, layer: int, kind: RelativeNode
    ) -> None:
        super().__init__(table, name, node, layer)
        self.distance = Linear(table, f"{name}.distance")
        self.output = Linear(table, f"{name}.output")
        selected, compares = kind.untie, kind.segments
        self.content_bias = parameter(table[f"{name}.content_bias"]) if selected else None
        self.distance_bias = parameter(table[f"{name}.distance_bias"]) if selected else None
        self.segment_bias = parameter(table[f"{name}.segment_bias"]) if compares else None
        self.segment = parameter(table[f"{name}.segment"]) if compares else None
        self.hidden_dropout = node.dropout.hidden

    def prepare(self, kind: RelativeNode, read: AttentionInputs) -> RelativeContext:
        """Encoded distances, the mask as additive scores, and the biases that layers share."""
        inputs, x_bqh, shared = read
        allowed, has_keys, _ = mask_of(inputs)
        order = inputs.permutation
        same_segment = _same_segment(inputs, x_bqh.dtype) if kind.segments else None
        distances = encode_distances(kind.clamp, inputs, x_bqh)
        distances = dropout(distances, self.hidden_dropout, self.training)
        mask = None
        if allowed is not None:
            mask = torch.zeros_like(allowed, dtype=x_bqh.dtype).masked_fill(~allowed, -torch.inf)
        return RelativeContext(
            mask=mask, distances=distances, reversed_rows=inputs.backward,
            gathered=None if order is None else inputs.remembered + order.target_positions,
            same_segment=same_segment, has_keys=has_keys,
            content_bias=shared.get("relative.content_bias"),
            distance_bias=shared.get("relative.distance_bias"),
        )  # fmt: skip

    def mix(self, projected: Projected, context: RelativeContext) -> Float[Tensor, "b q w"]:
        n, (query_bqw, key_bkw, value_bkw) = self.heads, projected
        key, value = (split_heads(y, n) for y in (key_bkw, value_bkw))
        distance = split_heads(self.distance(context.distances), n).mT
        names = ("mask", "reversed_rows", "gathered", "same_segment", "has_keys")
        part = partial(rows_of, context, names)
        mixed = [
            self._mixed(query_bqw[rows], key[rows], value[rows], distance, part(rows))
            for rows in rows_at_once(len(key), n * query_bqw.shape[1] * key.shape[2], query_bqw)
        ]
        return join_heads(mixed[0] if len(mixed) == 1 else torch.cat(mixed))

    def _mixed(
        self,
        query_bqw: Float[Tensor, "b q w"],
        key_bnkd: Float[Tensor, "b n k d"],
        value_bnkd: Float[Tensor, "b n k d"],
        distance: Float[Tensor, "*ways n d l"],
        context: RelativeContext,
    ) -> Float[Tensor, "b n q d"]:
        """Weighted values (b, n, q, d); ``distance`` is (n, d, l) or (2, n, d, l)."""
        by_content = self._biased(query_bqw, self.content_bias, context.content_bias)
        scores_bnqk = self._distance_scores(query_bqw, distance, context, key_bnkd.shape[2])
        if context.mask is not None:
            scores_bnqk = scores_bnqk + context.mask
        if self.segment is not None and context.same_segment is not None:
            # The score of other segments is a constant per query, which softmax ignores.
            table_2w = self.segment.to(query_bqw.dtype)
            table_nd1 = (table_2w[0] - table_2w[1]).view(self.heads, -1, 1)
            biased_bnqd = self._biased(query_bqw, self.segment_bias, None)
            favour_bnq1 = (biased_bnqd * biased_bnqd.shape[3] ** -0.5) @ table_nd1
            if exports():  # whose shapes the fused sum cannot be made for
                scores_bnqk = scores_bnqk + favour_bnq1 * context.same_segment
            else:
                scores_bnqk = torch.addcmul(scores_bnqk, favour_bnq1, context.same_segment)
        rate = self.dropout if self.training else 0.0
        return attend(by_content, key_bnkd, value_bnkd, Mask(scores_bnqk, context.has_keys), rate)

    def _biased(
        self,
        query_bqw: Float[Tensor, "b q w"],
        of_layer: Float[Tensor, "w"] | None,
        common: Float[Tensor, "w"] | None,
    ) -> Float[Tensor, "b n q d"]:
        bias_w = common if of_layer is None else of_layer
        assert bias_w is not None, "the biases are the layer's own or shared"
        return split_heads(query_bqw + bias_w.to(query_bqw.dtype), self.heads)

    def _distance_scores(
        self,
        query_bqw: Float[Tensor, "b q w"],
        distance: Float[Tensor, "*ways n d l"],
        context: RelativeContext,
        keys: int,
    ) -> Float[Tensor, "b n q {keys}"]:
        """Scores of the distance from each query to each key."""
        biased_bnqd = self._biased(query_bqw, self.distance_bias, context.distance_bias)
        biased_bnqd = biased_bnqd * biased_bnqd.shape[3] ** -0.5
        if context.reversed_rows is not None:
            distance = distance.index_select(0, context.reversed_rows)
        gathered, (b, _, q, _), distances = context.gathered, biased_bnqd.shape, distance.shape[-1]

        def product(first: int, end: int, nearest: int, farthest: int) -> Tensor:
            query, entries = biased_bnqd[:, :, first:end], distance[..., nearest:farthest]
            if context.reversed_rows is None:
                # One product per head for all rows, which have the same distances.
                scores = query.transpose(0, 1).flatten(1, 2) @ entries
                scores_nbql: Tensor = torch.unflatten(scores, 1, (b, -1))
            else:
                scores_nbql = (query @ entries).transpose(0, 1)
            return scores_nbql

        in_order = q - (0 if gathered is None else gathered.shape[1])
        cut = [(0, in_order, 0, distances)] if exports() else strips(keys, in_order, distances)
        pieces = [
            relative_shift(product(first, first + rows, begin, end), keys)
            for first, rows, begin, end in cut
        ]
        if gathered is not None:
            full = product(in_order, q, 0, distances)
            pieces.append(gather_distances(full, keys, gathered))
        scores_nbqk = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=2)
        return scores_nbqk.transpose(0, 1)


def _same_segment(inputs: EncoderInputs, dtype: torch.dtype) -> Float[Tensor, "b 1 q k"]:
    """1 where query and key are in one segment, else 0."""
    ids = inputs.segment_ids
    ids_bs = torch.zeros_like(inputs.token_ids[:1]) if ids is None else ids
    # Cached positions count as segment 0 (XLNet, modeling.py).
    keys_bk = F.pad(ids_bs, (inputs.remembered, 0)) if inputs.remembered else ids_bs
    return (inputs.in_queries(ids_bs)[:, :, None] == keys_bk[:, None, :])[:, None].to(dtype)


def relative_shift(x_nbql: Float[Tensor, "n b q l"], keys: int) -> Float[Tensor, "n b q {keys}"]:
    """Convert scores by distance (n, b, q, l) to scores by key (n, b, q, k).

    The keys of a query begin one entry before those of the query before it; the last one's at 0.
    """
    _, _, q, l = x_nbql.shape
    # Rows concatenated and cut one shorter: each moves one place against the one before.
    flat = x_nbql.flatten(2)[..., q - 1 : q - 1 + q * (l - 1)]
    return torch.unflatten(flat, 2, (q, l - 1))[..., :keys]


@torch.library.custom_op("bertc::gather_distances", mutates_args=())
def gather_distances(scores_nbql: Tensor, count: int, keys_bq: Tensor) -> Tensor:
    """Convert scores by distance (n, b, q, l) to scores by key, for queries at the keys (b, q).

    Its gradient is a gather too: torch would scatter, which needs a sort.
    """
    # Later keys may have no distance, if no query attends to them.
    return _entries(scores_nbql, count - 1 - keys_bq, count)


@torch.library.custom_op("bertc::gather_distances_gradient", mutates_args=())
def _distances_gradient(gradient_nbqs: Tensor, distances: int, keys_bq: Tensor) -> Tensor:
    context = gradient_nbqs.shape[3]
    key_bql = _lanes(keys_bq + 1 - context, distances)
    own_nbql = _entries(gradient_nbqs, keys_bq + 1 - context, distances)
    return own_nbql.where((key_bql >= 0) & (key_bql < context), 0)


def _entries(
    x_nbql: Float[Tensor, "n b q l"], first_bq: Int[Tensor, "b q"], count: int
) -> Float[Tensor, "n b q {count}"]:
    """``count`` entries (n, b, q, many) from ``first`` on of each row; the last one repeats."""
    entry_bqs = _lanes(first_bq, count).clamp(0, x_nbql.shape[3] - 1)
    return x_nbql.gather(3, entry_bqs.expand(len(x_nbql), *entry_bqs.shape))


def _lanes(first_bq: Int[Tensor, "b q"], count: int) -> Int[Tensor, "b q {count}"]:
    return first_bq[:, :, None] + torch.arange(count, device=first_bq.device)


@gather_distances.register_fake
def _(scores_nbql: Tensor, context: int, keys_bq: Tensor) -> Tensor:
    return scores_nbql.new_empty(*scores_nbql.shape[:3], context)


@_distances_gradient.register_fake
def _(gradient_nbqs: Tensor, distances: int, keys_bq: Tensor) -> Tensor:
    return gradient_nbqs.new_empty(*gradient_nbqs.shape[:3], distances)


def _keep_keys(ctx: Any, inputs: tuple[Tensor, int, Tensor], output: Any) -> None:
    scores_nbql, _, keys_bq = inputs
    ctx.distances = scores_nbql.shape[3]
    ctx.save_for_backward(keys_bq)


def _to_scores(ctx: Any, gradient_nbqs: Float[Tensor, "n b q s"]) -> tuple[Tensor, None, None]:
    return _distances_gradient(gradient_nbqs, ctx.distances, *ctx.saved_tensors), None, None


gather_distances.register_autograd(_to_scores, setup_context=_keep_keys)
