"""Dropout, and attention with dropout on a CPU, where the library's own are slow.

Axes: b batch, n heads, s sequence, d head_dim.
"""

import torch
import torch.nn.functional as F

_DRAWS_PER_WORD = 4
_LEVELS = 1 << 16


def dropout(x: torch.Tensor, rate: float, training: bool) -> torch.Tensor:
    """Zero each element with probability ``rate`` and scale the rest by 1 / (1 - rate); any shape.

    Draws from the default generator of the device. An eager CPU draws one element at a time, which
    takes a sixth of a training step; there four 16-bit draws come from one 64-bit word instead, and
    the rate is rounded to 1 / 65536.
    """
    if not training or rate == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling() or rate == 1:
        return F.dropout(x, rate, training=True)
    return x * _kept(x, rate)


def _kept(x: torch.Tensor, rate: float) -> torch.Tensor:
    """1 / (1 - rate) where an element stays, 0 where it goes, in the shape and dtype of ``x``."""
    words = torch.empty(-(-x.numel() // _DRAWS_PER_WORD), dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    kept = draws >= round(rate * _LEVELS) - _LEVELS // 2
    return kept.to(x.dtype).mul_(1 / (1 - rate))


def attend(
    query_bnsd: torch.Tensor,
    key_bnsd: torch.Tensor,
    value_bnsd: torch.Tensor,
    mask_b11s: torch.Tensor | None,
    rate: float,
) -> torch.Tensor:
    """Scaled dot-product attention (b, n, s, d) with dropout ``rate`` on its probabilities.

    No score is materialised, except on an eager CPU with dropout: no fused kernel has dropout
    there, so the scores exist anyway, and this way they cost one pass less and faster draws.
    """
    fused = query_bnsd.device.type != "cpu" or torch.compiler.is_compiling()
    if fused or rate == 0:
        return F.scaled_dot_product_attention(query_bnsd, key_bnsd, value_bnsd, mask_b11s, rate)
    scores_bnss = (query_bnsd * query_bnsd.shape[-1] ** -0.5) @ key_bnsd.transpose(-2, -1)
    if mask_b11s is not None:
        scores_bnss = scores_bnss.masked_fill(~mask_b11s, float("-inf"))
    return dropout(scores_bnss.softmax(-1), rate, training=True) @ value_bnsd
