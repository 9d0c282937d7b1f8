"""Softmax attention by whichever kernel the machine has for it.

Axes: b batch, n heads, s sequence, d head_dim, t = b * s tokens, r sequences of a batch.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch.nn.attention.varlen import varlen_attn

from bertc.nn.dropout import dropout

SHORTEST = 3
"""Tokens of the shortest sequence that rows are packed with: its specials and one token."""


class Bounds(NamedTuple):
    """Where the sequences of a batch lie when its rows are laid end to end."""

    offsets: torch.Tensor  # (r + 1,) int32, the first token of each, then t, however often
    longest: int


Visible = torch.Tensor | Bounds | None
"""What a token sees: keys where a mask (b, 1, 1|s, s) is true, its own sequence, or the row."""


def can_varlen(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether there is a kernel for sequences of any length laid end to end."""
    return device.type == "cuda" and dtype == torch.bfloat16


def within(sequence_ids_bs: torch.Tensor, varlen: bool) -> Visible:
    """Each token sees the unbroken run of its own number in (b, s), padding its own too."""
    if not varlen:
        return (sequence_ids_bs[:, :, None] == sequence_ids_bs[:, None, :])[:, None]
    b, seq = sequence_ids_bs.shape
    begins_bs = F.pad(sequence_ids_bs.diff(dim=1) != 0, (1, 0), value=True)
    lane_t = torch.arange(b * seq, device=sequence_ids_bs.device)
    # A fixed number of places, the rest of them empty sequences at the end.
    starts_t = torch.where(begins_bs.reshape(-1), lane_t, b * seq).sort().values
    most = min(b * seq, b * (seq // SHORTEST + 1))
    return Bounds(F.pad(starts_t[:most], (0, 1), value=b * seq).int(), seq)


def attend(
    query_bnsd: torch.Tensor,
    key_bnsd: torch.Tensor,
    value_bnsd: torch.Tensor,
    visible: Visible,
    rate: float,
) -> torch.Tensor:
    """Scaled dot-product attention (b, n, s, d) with dropout ``rate`` on its probabilities.

    No score is materialised, except on an eager CPU with dropout: no fused kernel has dropout
    there, so the scores exist anyway, and this way they cost one pass less and faster draws.
    """
    if isinstance(visible, Bounds):
        return _varlen(query_bnsd, key_bnsd, value_bnsd, visible)
    fused = query_bnsd.device.type != "cpu" or torch.compiler.is_compiling()
    if fused or rate == 0:
        return F.scaled_dot_product_attention(query_bnsd, key_bnsd, value_bnsd, visible, rate)
    scores_bnss = (query_bnsd * query_bnsd.shape[-1] ** -0.5) @ key_bnsd.transpose(-2, -1)
    if visible is not None:
        scores_bnss = scores_bnss.masked_fill(~visible, float("-inf"))
    return dropout(scores_bnss.softmax(-1), rate, training=True) @ value_bnsd


def _varlen(
    query_bnsd: torch.Tensor, key_bnsd: torch.Tensor, value_bnsd: torch.Tensor, bounds: Bounds
) -> torch.Tensor:
    query, key, value = (
        rearrange(x, "b n s d -> (b s) n d") for x in (query_bnsd, key_bnsd, value_bnsd)
    )
    # Only what all releases agree on is passed, and by position.
    offsets, longest = bounds
    mixed = varlen_attn(query, key, value, offsets, offsets, longest, longest)
    assert isinstance(mixed, torch.Tensor), "nothing beside the result was asked for"
    return rearrange(mixed, "(b s) n d -> b n s d", b=len(query_bnsd))
