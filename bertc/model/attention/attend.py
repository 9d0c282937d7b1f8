"""Softmax attention by the fastest kernel of the machine.

Axes: b batch, n heads, s sequence, q queries, k keys, d head_dim.
"""

from functools import cache
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertc.ir.blocks import SHORT_KEYS
from bertc.model.attention.masks import AttentionMask, Blocks, VarlenOffsets, not_later, of_rows
from bertc.model.inputs import gather_positions
from bertc.model.native.kernels import Dropped, Kernels, drop, drop_out, kernels_for

SCORES_AT_ONCE = 4 << 20
"""Bytes of scores computed at once on an eager CPU: they stay in its caches until they are read."""


# Written with torch's own views: a compiler traces a pattern of einops letter by letter, which took
# four fifths of tracing a layer.
def split_heads(x: Shaped[Tensor, "*b s w"], heads: int) -> Shaped[Tensor, "*b n s d"]:
    """Each head's part (.., n, s, d) of wide vectors (.., s, w)."""
    return torch.unflatten(x, -1, (heads, -1)).transpose(-3, -2)


def join_heads(x: Shaped[Tensor, "*b n s d"]) -> Shaped[Tensor, "*b s w"]:
    """Wide vectors (.., s, w) of the heads' parts (.., n, s, d)."""
    return x.transpose(-3, -2).flatten(-2)


@cache
def can_varlen(device: torch.device, dtype: torch.dtype, windowed: bool = False) -> bool:
    """True if there is a kernel for packed sequences of any length, or one with windows too."""
    if device.type != "cuda" or dtype != torch.bfloat16:
        return False
    from torch.nn.attention.varlen import varlen_attn  # it loads the compiler

    return not windowed or "window_size" in signature(varlen_attn).parameters


def attend(
    query_bnqd: Float[Tensor, "b n q d"],
    key_bnkd: Float[Tensor, "b n k d"],
    value_bnkd: Float[Tensor, "b n k d"],
    mask: AttentionMask,
    rate: float,
) -> Float[Tensor, "b n q d"]:
    """Scaled dot-product attention (b, n, q, d) with dropout ``rate`` on its probabilities."""
    if isinstance(mask, VarlenOffsets):
        return _varlen(query_bnqd, key_bnkd, value_bnkd, mask)
    if isinstance(mask, Blocks):  # rows of their own, at a cost of the window's size
        queries, keys, values = (x.transpose(1, 2) for x in (query_bnqd, key_bnkd, value_bnkd))
        blocks = mask.queries(queries), mask.keys(keys), mask.keys(values)
        mixed = _attend(*blocks, mask.allowed, False, rate)
        return _at_outputs(mask.rows(mixed, *queries.shape[:2]), mask.outputs)
    mixed_bnqd = _attend(query_bnqd, key_bnkd, value_bnkd, mask.allowed, mask.is_causal, rate)
    return mixed_bnqd if mask.has_keys is None else mixed_bnqd * mask.has_keys


def _attend(
    query_bnqd: Float[Tensor, "b n q d"],
    key_bnkd: Float[Tensor, "b n k d"],
    value_bnkd: Float[Tensor, "b n k d"],
    mask: Shaped[Tensor, "#b #n #q k"] | None,
    is_causal: bool,
    rate: float,
) -> Float[Tensor, "b n q d"]:
    """Attention under a boolean mask, an additive one, or a causal one."""
    # With an additive mask, a CPU's kernel would compute in fp32.
    scored = mask is not None and mask.dtype != torch.bool
    keys, by_parts = key_bnkd.shape[2], False  # by parts: rows at once, with their scores
    if eager_cpu(query_bnqd):
        # No fused kernel there has dropout, and backward is slow for few keys in bf16.
        short = keys <= SHORT_KEYS and query_bnqd.dtype == torch.bfloat16
        trained = query_bnqd.requires_grad and torch.is_grad_enabled()
        by_parts = rate > 0 or scored or (short and trained)
    if not by_parts:
        return F.scaled_dot_product_attention(
            query_bnqd, key_bnkd, value_bnkd, mask, rate, is_causal
        )
    if is_causal:
        mask = not_later(keys, key_bnkd.device)[None]
    if mask is not None and not scored:
        mask = torch.zeros_like(mask, dtype=query_bnqd.dtype).masked_fill_(~mask, float("-inf"))
    b, n, q, _ = query_bnqd.shape
    mask = None if mask is None else mask.to(query_bnqd.dtype)
    parts, kernels = rows_at_once(b, n * q * keys, query_bnqd), kernels_for(query_bnqd, width=keys)
    # Split once: each slice would have a backward as large as the whole.
    split = (torch.split(x, parts[0].stop or b) for x in (query_bnqd, key_bnkd, value_bnkd))
    mixed: list[Tensor] = []
    for rows, *inputs in zip(parts, *split, strict=True):
        added = of_rows(mask, rows)
        added = None if added is None else added.expand(len(inputs[0]), n, q, keys)
        mixed.append(_Attention.apply(*inputs, added, drop(rate), kernels))  # type: ignore[no-untyped-call]
    return mixed[0] if len(mixed) == 1 else torch.cat(mixed)


def eager_cpu(x: Tensor) -> bool:
    """True if ``x`` is on a CPU and no compiler traces the call."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def rows_at_once(b: int, scores: int, like: Tensor) -> list[slice]:
    """Slices of ``b`` rows of ``scores`` scores, sized for an eager CPU's caches; elsewhere one."""
    if not eager_cpu(like):
        return [slice(None)]
    parts = -(-b // max(1, SCORES_AT_ONCE // (scores * like.dtype.itemsize)))
    size = -(-b // parts)
    return [slice(first, first + size) for first in range(0, b, size)]


class _Attention(torch.autograd.Function):
    """dropout(softmax(Q K^T / sqrt(d) + added)) V; only the softmax is saved for backward."""

    @staticmethod
    def forward(
        ctx: Any,
        query_bnqd: Float[Tensor, "b n q d"],
        key_bnsd: Float[Tensor, "b n s d"],
        value_bnsd: Float[Tensor, "b n s d"],
        added_bnqs: Float[Tensor, "b n q s"] | None,
        dropped: Dropped,
        kernels: Kernels | None,
    ) -> Tensor:
        # Products per head would copy them, here and in backward; one projection made all three.
        inputs = [x.contiguous() for x in (query_bnqd, key_bnsd, value_bnsd)]
        scores_bnqs, scale = inputs[0] @ inputs[1].mT, query_bnqd.shape[-1] ** -0.5
        if kernels is None:
            scores_bnqs = scores_bnqs.mul_(scale)
            scores_bnqs = scores_bnqs if added_bnqs is None else scores_bnqs.add_(added_bnqs)
            chances_bnqs = scores_bnqs.softmax(-1)
            left_bnqs = drop_out(chances_bnqs, dropped, None)
        else:
            chances_bnqs, left_bnqs = kernels.softmax(scores_bnqs, added_bnqs, scale, dropped)
        ctx.save_for_backward(*inputs, chances_bnqs)
        ctx.how = dropped, kernels
        return left_bnqs @ inputs[2]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream_bnqd: Float[Tensor, "b n q d"]) -> tuple[Tensor | None, ...]:
        query_bnqd, key_bnsd, value_bnsd, chances_bnqs = ctx.saved_tensors
        dropped, kernels = ctx.how
        upstream_bnqd = upstream_bnqd.contiguous()
        slope_bnqs = upstream_bnqd @ value_bnsd.mT
        if kernels is None:
            left_bnqs = drop_out(chances_bnqs, dropped, None)
            slope_bnqs = slope_bnqs.mul_(left_bnqs)
            slope_bnqs.addcmul_(chances_bnqs, slope_bnqs.sum(-1, keepdim=True), value=-1)
        else:
            slope_bnqs, left_bnqs = kernels.softmax_backward(chances_bnqs, slope_bnqs, dropped)
        scale = query_bnqd.shape[-1] ** -0.5
        return (
            (slope_bnqs @ key_bnsd).mul_(scale), (slope_bnqs.mT @ query_bnqd).mul_(scale),
            left_bnqs.mT @ upstream_bnqd, slope_bnqs if ctx.needs_input_grad[3] else None, None,
            None,
        )  # fmt: skip


def _at_outputs(
    mixed_bsnd: Float[Tensor, "b s n d"], outputs_bq: Int[Tensor, "b q"] | None
) -> Float[Tensor, "b n q d"]:
    """States of all queries, or of those asked for."""
    if outputs_bq is not None:
        n, rows_bsw = mixed_bsnd.shape[2], mixed_bsnd.flatten(2)
        mixed_bsnd = torch.unflatten(gather_positions(rows_bsw, outputs_bq), 2, (n, -1))
    return mixed_bsnd.transpose(1, 2)


def _varlen(
    query_bnsd: Float[Tensor, "b n s d"],
    key_bnsd: Float[Tensor, "b n s d"],
    value_bnsd: Float[Tensor, "b n s d"],
    mask: VarlenOffsets,
) -> Float[Tensor, "b n q d"]:
    from torch.nn.attention.varlen import varlen_attn  # it loads the compiler

    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (query_bnsd, key_bnsd, value_bnsd))
    offsets, longest, outputs_bq, reach = mask
    # Only arguments that all releases share are passed, by position, and windows where there are.
    window: dict[str, Any] = {} if reach is None else {"window_size": (reach, reach)}
    mixed = varlen_attn(q, k, v, offsets, offsets, longest, longest, **window)
    assert isinstance(mixed, Tensor), "varlen_attn returns more only on request"
    return _at_outputs(torch.unflatten(mixed, 0, (len(query_bnsd), -1)), outputs_bq)
