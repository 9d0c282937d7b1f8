"""Attention kinds: by content, and by content disentangled from distances.

Axes: b batch, q queries, k keys, l either, h hidden, n heads, d head_dim, w widths of all heads,
r rows of the table of distances.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir.network import attention as nodes
from bertc.ir.network.attention_node import ContentAttention as ContentNode
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import OwnPositions
from bertc.model.attention import masks
from bertc.model.attention.attend import attend, can_varlen, join_heads, rows_at_once, split_heads
from bertc.model.attention.relative import RelativeAttention
from bertc.model.body import Projected
from bertc.model.inputs import AttentionInputs, EncoderInputs, gather_positions
from bertc.model.layer import AttentionPart, ProjectedAttention
from bertc.model.native.kernels import dropout, with_gradient
from bertc.model.norm import AnyNorm, norm_if_any
from bertc.model.own import call_own, construct_from
from bertc.model.positions import Distances, PlacedHeads, Rotation, related_by
from bertc.model.weights import Linear, Table, fused_linear


class ContentContext(NamedTuple):
    """A mask, and what positions do to queries and keys, or to their scores."""

    mask: masks.AttentionMask
    related: Rotation | Distances | PlacedHeads | None = None

    def select_queries(self, inputs: EncoderInputs, at_bq: Int[Tensor, "b q"]) -> "ContentContext":
        """The context of the queries at some positions; of kernels for all queries the outputs."""
        if isinstance(self.mask, masks.OF_ALL_QUERIES):
            return self._replace(mask=self.mask._replace(outputs=at_bq))
        related = None if self.related is None else self.related.select_queries(at_bq)
        return ContentContext(self.mask.select_queries(inputs, at_bq), related)


class ContentAttention(ProjectedAttention[ContentNode, ContentContext]):
    """softmax(Q K^T / sqrt(d)) V over all heads, then a projection (Vaswani et al. 2017, 3.2)."""

    def __init__(
        self, table: Table, name: str, node: Encoder, layer: int, kind: ContentNode
    ) -> None:
        super().__init__(table, name, node, layer)
        self.output = Linear(table, f"{name}.output")
        self.positions, self.head_dim = node.positions, node.layers[layer].head_dim
        self.key_heads, self.normed_over = kind.key_heads(self.heads), kind.over
        norm = kind.norm_of_keys(node.norm.eps)
        self.query_norm = norm_if_any(table, f"{name}.query_norm", norm)
        self.key_norm = norm_if_any(table, f"{name}.key_norm", norm)
        self.own_turn: nn.Module | None = None
        if isinstance(node.positions, OwnPositions) and node.positions.in_attention:
            self.own_turn = construct_from(table, f"{name}.own_turn", node.positions)

    def prepare(self, kind: ContentNode, read: AttentionInputs) -> ContentContext:
        """The mask, in the form that the fastest kernel takes, and angles or distances."""
        inputs, x_bqh, shared = read
        windowed = kind.reach is not None
        related = related_by(self.positions, self.head_dim, windowed, inputs, shared)
        if isinstance(related, Distances) and not windowed:
            return ContentContext(masks.mask_of(inputs), related)
        # The kernel for packed sequences has no dropout and no biases.
        plain = not (self.training and self.dropout > 0) and not isinstance(related, Distances)
        varlen = plain and can_varlen(x_bqh.device, x_bqh.dtype, windowed)
        return ContentContext(masks.kernel_mask(inputs, varlen, kind.reach), related)

    def project(
        self,
        x_bqh: Float[Tensor, "b q h"],
        k_bkh: Float[Tensor, "b k h"] | None,
        context: ContentContext,
    ) -> Projected:
        mask = context.mask
        if (
            k_bkh is not None
            and isinstance(mask, masks.OF_ALL_QUERIES)
            and mask.outputs is not None
        ):
            return self.project(k_bkh, None, context)
        if self.query_norm is None:
            query_bqw, key, value = super().project(x_bqh, k_bkh, context)
        else:  # kernels of norms read no parts of a wider product
            keys = x_bqh if k_bkh is None else k_bkh
            query_bqw, key, value = self.query(x_bqh), self.key(keys), self.value(keys)
        query_bqnd = self._by_head(query_bqw, self.query_norm)
        key, value = self._by_head(key, self.key_norm), self._by_head(value, None)
        if isinstance(turns := context.related, Rotation):
            query_bqnd = turns.turned(query_bqnd, turns.queries)
            key = turns.turned(key, turns.keys)
        elif self.own_turn is not None and isinstance(places := context.related, PlacedHeads):
            query_bqnd = call_own(self.own_turn, query_bqnd, places.queries)
            key = call_own(self.own_turn, key, places.keys)
        if self.key_heads < self.heads:
            times = self.heads // self.key_heads
            key, value = (y.repeat_interleave(times, dim=2) for y in (key, value))
        return Projected(*(y.flatten(2) for y in (query_bqnd, key, value)))

    def _by_head(
        self, y_blw: Float[Tensor, "b l w"], norm: AnyNorm | None
    ) -> Float[Tensor, "b l n d"]:
        """Heads side by side as an axis, after a norm of all of them or of each."""
        if norm is not None and self.normed_over == "width":
            return torch.unflatten(norm(y_blw), 2, (-1, self.head_dim))
        y_blnd = torch.unflatten(y_blw, 2, (-1, self.head_dim))
        return y_blnd if norm is None else norm(y_blnd)

    def mix(self, projected: Projected, context: ContentContext) -> Float[Tensor, "b q w"]:
        query, key, value = (split_heads(y, self.heads) for y in projected)
        rate, mask = self.dropout if self.training else 0.0, context.mask
        if isinstance(context.related, Distances):
            assert not isinstance(mask, masks.VarlenOffsets), "that kernel takes no biases"
            mask = context.related.added(self.heads, mask, query.dtype)
        return join_heads(attend(query, key, value, mask, rate))


class DisentangledContext(NamedTuple):
    """A mask, the normed table of distances, and its row for each query and key."""

    mask: Bool[Tensor, "#b 1 #q k"] | None  # True where a query attends to a key
    has_keys: Bool[Tensor, "b 1 q 1"] | None  # False for queries that attend to nothing
    table: Float[Tensor, "r h"]
    row: Int[Tensor, "#b 1 q k"]

    def select_queries(
        self, inputs: EncoderInputs, at_bq: Int[Tensor, "b q"]
    ) -> "DisentangledContext":
        """The context of the queries at some positions."""
        mask = masks.Mask(self.mask, self.has_keys).select_queries(inputs, at_bq)
        row = masks.select_rows(self.row, at_bq)
        return self._replace(mask=mask.allowed, has_keys=mask.has_keys, row=row)


class DisentangledAttention(ProjectedAttention[nodes.DisentangledAttention, DisentangledContext]):
    """Attention by content, of content to distances, and of distances to content."""

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__(table, name, node, layer)
        self.output = Linear(table, f"{name}.output")
        self.eps, self.hidden_dropout = node.norm.eps, node.dropout.hidden

    def prepare(
        self, kind: nodes.DisentangledAttention, read: AttentionInputs
    ) -> DisentangledContext:
        """The mask, in which padding attends to nothing, the normed table and its rows."""
        inputs, x_bqh, shared = read
        allowed, has_keys, _ = masks.mask_of(inputs)
        if has_keys is None and inputs.attention_mask is not None:
            has_keys = inputs.in_queries(inputs.attention_mask)[:, None, :, None].bool()
        table_rh, scale_h, shift_h = (
            shared[f"relative.{name}"].to(x_bqh.dtype)
            for name in ("distance.weight", "norm.weight", "norm.bias")
        )
        normed_rh = F.layer_norm(table_rh, table_rh.shape[1:], scale_h, shift_h, self.eps)
        return DisentangledContext(allowed, has_keys, normed_rh, _rows_of(kind, inputs))

    def mix(self, projected: Projected, context: DisentangledContext) -> Float[Tensor, "b q w"]:
        query, key, value = (split_heads(y, self.heads) for y in projected)
        # Of sqrt(3 d) attention divides by sqrt(d), and each of the two factors by what is left.
        query, key = query * 3**-0.25, key * 3**-0.25
        table_rh = dropout(context.table, self.hidden_dropout, self.training)
        far_query, far_key = (
            split_heads(y, self.heads).mT * 3**-0.25 * query.shape[3] ** -0.5
            for y in fused_linear((self.query, self.key), table_rh)
        )
        columns: int = torch.sym_max(key.shape[2], len(table_rh))  # type: ignore[no-untyped-call]
        part = partial(masks.rows_of, context, ("mask", "has_keys", "row"))
        mixed = [
            self._mixed(query[b], key[b], value[b], far_query, far_key, part(b))
            for b in rows_at_once(key.shape[0], self.heads * query.shape[2] * columns, query)
        ]
        return join_heads(mixed[0] if len(mixed) == 1 else torch.cat(mixed))

    def _mixed(
        self,
        query_bnqd: Float[Tensor, "b n q d"],
        key_bnkd: Float[Tensor, "b n k d"],
        value_bnkd: Float[Tensor, "b n k d"],
        far_query_ndr: Float[Tensor, "n d r"],
        far_key_ndr: Float[Tensor, "n d r"],
        context: DisentangledContext,
    ) -> Float[Tensor, "b n q d"]:
        b, n, q, _ = query_bnqd.shape
        row_bnqk = context.row.expand(b, n, q, -1)
        to_far_bnqk = _pick_products(query_bnqd, far_key_ndr, row_bnqk)
        from_far_bnkq = _pick_products(key_bnkd, far_query_ndr, row_bnqk.mT)
        scores_bnqk = to_far_bnqk + from_far_bnkq.mT
        if context.mask is not None:
            scores_bnqk = scores_bnqk.masked_fill(~context.mask, -torch.inf)
        rate = self.dropout if self.training else 0.0
        mask = masks.Mask(scores_bnqk, context.has_keys)
        return attend(query_bnqd, key_bnkd, value_bnkd, mask, rate)


def _pick_products(
    x_bnsd: Float[Tensor, "b n s d"],
    far_ndr: Float[Tensor, "n d r"],
    row_bnsk: Int[Tensor, "b n s k"],
) -> Float[Tensor, "b n s k"]:
    """Products of each state with these rows of the table."""
    # One product per head for the whole batch, with every row.
    products = x_bnsd.transpose(0, 1).flatten(1, 2) @ far_ndr
    x_bnsr = torch.unflatten(products, 1, (x_bnsd.shape[0], -1)).transpose(0, 1)
    if torch.compiler.is_compiling():
        return x_bnsr.gather(3, row_bnsk)
    # The library's gather would save what it gathers from, for its shape.
    shape = x_bnsr.shape
    return with_gradient(
        lambda x_bnsr: x_bnsr.gather(3, row_bnsk),
        lambda row_bnsk, slope: slope.new_zeros(shape).scatter_add_(3, row_bnsk, slope),
        (row_bnsk,), x_bnsr,
    )  # fmt: skip


def _rows_of(kind: nodes.DisentangledAttention, inputs: EncoderInputs) -> Int[Tensor, "#b 1 q k"]:
    """The table's row for the distance from each query to each key."""
    device, farthest = inputs.token_ids.device, kind.distance
    at_bs = inputs.position_ids
    if at_bs is None:
        at_bs = torch.arange(inputs.token_ids.shape[1], device=device)[None]
    before_m = torch.arange(-inputs.remembered, 0, device=device)
    at_bk = torch.cat([before_m.expand(at_bs.shape[0], -1), at_bs], dim=1)
    far_bqk = inputs.in_queries(at_bs)[:, :, None] - at_bk[:, None, :]
    rows = torch.tensor([*map(kind.row_of, range(-farthest, farthest + 1))], device=device)
    return rows[far_bqk.clamp(-farthest, farthest) + farthest][:, None]


class OwnContext(NamedTuple):
    """The mask of all tokens, and the positions of the queries if they are a subset."""

    mask: Bool[Tensor, "#b 1 #s s"] | None
    queries: Int[Tensor, "b q"] | None = None

    def select_queries(self, inputs: EncoderInputs, at_bq: Int[Tensor, "b q"]) -> "OwnContext":
        """The context of the queries at some positions."""
        return self._replace(queries=at_bq)


class OwnAttention(AttentionPart[nodes.OwnAttention, OwnContext]):
    """A module of the user's own, which reads all states of a row and a mask."""

    def __init__(
        self, table: Table, name: str, node: Encoder, layer: int, kind: nodes.OwnAttention
    ) -> None:
        super().__init__(table, name, node, layer)
        self.own = construct_from(table, f"{name}.own", kind)

    def prepare(self, kind: nodes.OwnAttention, read: AttentionInputs) -> OwnContext:
        return OwnContext(masks.mask_of(read.inputs).allowed)

    def forward(
        self,
        x_bqh: Float[Tensor, "b q h"],
        k_bkh: Float[Tensor, "b k h"] | None,
        context: OwnContext,
    ) -> Float[Tensor, "b q h"]:
        y_bsh = call_own(self.own, x_bqh if k_bkh is None else k_bkh, context.mask)
        return y_bsh if context.queries is None else gather_positions(y_bsh, context.queries)


def build_attention(table: Table, name: str, node: Encoder, layer: int) -> AttentionPart[Any, Any]:
    """Build the attention of one layer by its kind."""
    kind = node.attention.at(layer)
    match kind:
        case nodes.FullAttention() | nodes.LocalAttention():
            return ContentAttention(table, name, node, layer, kind)
        case nodes.RelativeAttention():
            return RelativeAttention(table, name, node, layer, kind)
        case nodes.DisentangledAttention():
            return DisentangledAttention(table, name, node, layer)
        case nodes.OwnAttention():
            return OwnAttention(table, name, node, layer, kind)
