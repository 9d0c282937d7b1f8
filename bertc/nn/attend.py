"""Softmax attention by whichever kernel the machine has for it.

Axes: b batch, n heads, s sequence, q tokens of it that ask, k positions of a row, d head_dim,
t = b * s tokens, r sequences of a batch.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch.nn.attention.varlen import varlen_attn

from bertc.nn.dropout import dropout
from bertc.nn.reading import rows_at

SHORTEST = 3
"""Tokens of the shortest sequence that rows are packed with: its specials and one token."""


class Bounds(NamedTuple):
    """Where the sequences of a batch lie when its rows are laid end to end."""

    offsets: torch.Tensor  # (r + 1,) int32, the first token of each, then t, however often
    longest: int
    asked: torch.Tensor | None = None  # (b, k) long, the tokens of each row that ask, if not all


Visible = torch.Tensor | Bounds | None
"""What a token sees: keys where a mask (b, 1, 1|q, s) is true, its own sequence, or the row."""


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


def narrowed(visible: Visible, asked_bk: torch.Tensor) -> Visible:
    """What some tokens of each row see, at positions (b, k)."""
    if isinstance(visible, Bounds):
        return visible._replace(asked=asked_bk)
    if visible is None or visible.shape[2] == 1:
        return visible
    s = visible.shape[3]
    return visible.gather(2, asked_bk[:, None, :, None].expand(-1, -1, -1, s))


def attend(
    query_bnqd: torch.Tensor,
    key_bnsd: torch.Tensor,
    value_bnsd: torch.Tensor,
    visible: Visible,
    rate: float,
) -> torch.Tensor:
    """Scaled dot-product attention (b, n, q, d) with dropout ``rate`` on its probabilities.

    No score is materialised, except on an eager CPU with dropout: no fused kernel has dropout
    there, so the scores exist anyway, and this way they cost one pass less and faster draws.
    """
    if isinstance(visible, Bounds):
        return _varlen(query_bnqd, key_bnsd, value_bnsd, visible)
    fused = query_bnqd.device.type != "cpu" or torch.compiler.is_compiling()
    if fused or rate == 0:
        return F.scaled_dot_product_attention(query_bnqd, key_bnsd, value_bnsd, visible, rate)
    scores_bnqs = (query_bnqd * query_bnqd.shape[-1] ** -0.5) @ key_bnsd.transpose(-2, -1)
    if visible is not None:
        scores_bnqs = scores_bnqs.masked_fill(~visible, float("-inf"))
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
