"""What the tokens of a batch see of each other.

Axes: b batch, n heads, s context, q tokens of it that ask, k positions of a row, d head_dim,
h hidden, l distances, t = b * s tokens, r sequences of a batch.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F

SHORTEST = 3
"""Tokens of the shortest sequence that rows are packed with: its specials and one token."""


class Bounds(NamedTuple):
    """Where the sequences of a batch lie when its rows are laid end to end."""

    offsets: torch.Tensor  # (r + 1,) int32, the first token of each, then t, however often
    longest: int
    asked: torch.Tensor | None = None  # (b, k) long, the tokens of each row that ask, if not all


class Relation(NamedTuple):
    """What tokens see of a context, and how they stand to it.

    The tokens that ask are the last of the context, unless ``places`` says which they are.
    """

    mask: torch.Tensor | None  # (b|1, 1, 1|q, s) bool, true where a token sees a key
    distances: torch.Tensor  # (l, h), entry i encodes that the key stands s - 1 - i before
    places: torch.Tensor | None = None  # (b, q) long, in the context
    same: torch.Tensor | None = None  # (b, 1, q, s) bool, both stand in one segment
    content_bias: torch.Tensor | None = None  # (n * d,), where all layers share it
    distance_bias: torch.Tensor | None = None


Visible = torch.Tensor | Bounds | Relation | Literal["earlier"] | None
"""What a token sees: keys where a mask (b, 1, 1|q, s) is true, its own sequence, keys at some
distance, itself and those before it, or the row."""


def within(sequence_ids_bs: torch.Tensor, varlen: bool) -> torch.Tensor | Bounds:
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


def not_later(seq: int, device: torch.device) -> torch.Tensor:
    """A mask (1, s, s): tokens see themselves and those before."""
    return torch.ones(1, seq, seq, dtype=torch.bool, device=device).tril()


def narrowed(visible: Visible, asked_bk: torch.Tensor, seq: int, before: int) -> Visible:
    """What some tokens of each row of ``seq`` see, at positions (b, k), others ``before`` it."""
    match visible:
        case Bounds():
            return visible._replace(asked=asked_bk)
        case Relation():
            return visible._replace(
                mask=_rows(visible.mask, asked_bk),
                same=_rows(visible.same, asked_bk),
                places=asked_bk + before,
            )
        case "earlier":
            lane_s = torch.arange(seq, device=asked_bk.device)
            return (lane_s <= asked_bk[..., None])[:, None]
        case _:
            return _rows(visible, asked_bk)


def _rows(mask: torch.Tensor | None, asked_bk: torch.Tensor) -> torch.Tensor | None:
    """The rows of a mask (b|1, 1, 1|q, s) at positions (b, k)."""
    if mask is None or mask.shape[2] == 1:
        return mask
    b, k = asked_bk.shape
    mask = mask.expand(b, -1, -1, -1)
    return mask.gather(2, asked_bk[:, None, :, None].expand(b, 1, k, mask.shape[3]))
