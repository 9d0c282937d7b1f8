"""Softmax attention by whichever kernel the machine has for it.

Axes: b batch, n heads, s sequence, q tokens of it that ask, k positions of a row, d head_dim.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch.nn.attention.varlen import varlen_attn

from bertc.nn.dropout import dropout
from bertc.nn.reading import rows_at
from bertc.nn.visible import Bounds, not_later


def can_varlen(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether there is a kernel for sequences of any length laid end to end."""
    return device.type == "cuda" and dtype == torch.bfloat16


def attend(
    query_bnqd: torch.Tensor,
    key_bnsd: torch.Tensor,
    value_bnsd: torch.Tensor,
    visible: torch.Tensor | Bounds | Literal["earlier"] | None,
    rate: float,
) -> torch.Tensor:
    """Scaled dot-product attention (b, n, q, d) with dropout ``rate`` on its probabilities.

    ``visible`` may also be scores (b, n, q, s) to add. No score is materialised, except on an eager
    CPU with dropout: no fused kernel has dropout there, so the scores exist anyway, and this way
    they cost one pass less and faster draws.
    """
    if isinstance(visible, Bounds):
        return _varlen(query_bnqd, key_bnsd, value_bnsd, visible)
    fused = query_bnqd.device.type != "cpu" or torch.compiler.is_compiling()
    mask = None if isinstance(visible, str) else visible
    # With scores to add, a CPU's kernel would compute in fp32.
    scored = mask is not None and mask.dtype != torch.bool
    if fused or (rate == 0 and not scored):
        causal = isinstance(visible, str)
        return F.scaled_dot_product_attention(query_bnqd, key_bnsd, value_bnsd, mask, rate, causal)
    scores_bnqs = (query_bnqd * query_bnqd.shape[-1] ** -0.5) @ key_bnsd.transpose(-2, -1)
    if isinstance(visible, str):
        mask = not_later(scores_bnqs.shape[3], scores_bnqs.device)
    if mask is not None and scored:
        scores_bnqs = scores_bnqs + mask
    elif mask is not None:
        scores_bnqs = scores_bnqs.masked_fill(~mask, float("-inf"))
    return dropout(scores_bnqs.softmax(-1), rate, training=True) @ value_bnsd


def _varlen(
    query_bnsd: torch.Tensor, key_bnsd: torch.Tensor, value_bnsd: torch.Tensor, bounds: Bounds
) -> torch.Tensor:
    query, key, value = (
        rearrange(x, "b n s d -> (b s) n d") for x in (query_bnsd, key_bnsd, value_bnsd)
    )
    # Only what all releases agree on is passed, and by position.
    offsets, longest, asked_bk = bounds
    mixed = varlen_attn(query, key, value, offsets, offsets, longest, longest)
    assert isinstance(mixed, torch.Tensor), "nothing beside the result was asked for"
    b, n = query_bnsd.shape[:2]
    if asked_bk is not None:
        rows_bsw = rearrange(mixed, "(b s) n d -> b s (n d)", b=b)
        return rearrange(rows_at(rows_bsw, asked_bk), "b k (n d) -> b n k d", n=n)
    return rearrange(mixed, "(b s) n d -> b n s d", b=b)
