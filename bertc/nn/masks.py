"""What the tokens of a batch see of each other.

Axes: b batch, n heads, s context, q tokens of it that ask, k positions of a row, d head_dim,
h hidden, l distances, t = b * s tokens, r sequences of a batch, u tokens unseen.
"""

from typing import Literal, NamedTuple, assert_never

import torch
import torch.nn.functional as F

from bertc.nn.inputs import Order


class Bounds(NamedTuple):
    """Where the sequences of a batch lie when its rows are laid end to end."""

    offsets: torch.Tensor  # (r + 1,) int32, the first token of each, then t
    longest: int
    asked: torch.Tensor | None = None  # (b, k) long, the tokens of each row that ask, if not all


class Ordered(NamedTuple):
    """What tokens see of a context of which some may see nothing.

    For the mask such a token sees everything; what it makes of that is not to be used.
    """

    mask: torch.Tensor  # (b, 1, q, s) bool, true where a token sees a key
    sees: torch.Tensor  # (b, 1, q, 1) bool, false where it sees none


class Relation(NamedTuple):
    """What tokens see of a context, and how they stand to it.

    The last tokens that ask stand where ``places`` says; the others are the last of the context.
    """

    mask: torch.Tensor | None  # (b|1, 1, 1|q, s), 0 where a token sees a key, else -inf
    distances: torch.Tensor  # (l, h), entry i encodes that the key stands s - 1 - i before
    backward: torch.Tensor | None = (
        None  # (b,) long, 1 where text runs backward: distances (2, l, h)
    )
    places: torch.Tensor | None = None  # (b, u) long, in the context
    same: torch.Tensor | None = None  # (b, 1, q, s), 1 where both stand in one segment, else 0
    sees: torch.Tensor | None = None  # (b, 1, q, 1) bool, as in ``Ordered``
    content_bias: torch.Tensor | None = None  # (n * d,), where all layers share it
    distance_bias: torch.Tensor | None = None

    def of_rows(self, rows: slice) -> "Relation":
        """That of some rows of the batch."""
        told = (self.mask, self.backward, self.places, self.same, self.sees)
        mask, backward, places, same, sees = (of_rows(x, rows) for x in told)
        return self._replace(mask=mask, backward=backward, places=places, same=same, sees=sees)


Visible = torch.Tensor | Bounds | Ordered | Relation | Literal["earlier"] | None
"""What a token sees: keys where a mask (b, 1, 1|q, s) is true, its own sequence, keys that may be
none, keys at some distance, itself and those before it, or the row."""


def of_rows(x: torch.Tensor | None, rows: slice) -> torch.Tensor | None:
    """Some rows of (b, ...), or what all rows have in common, (1, ...)."""
    return x if x is None or len(x) == 1 else x[rows]


def within(sequence_ids_bs: torch.Tensor) -> torch.Tensor:
    """A mask: each token sees the unbroken run of its own number in (b, s), padding its own too."""
    return (sequence_ids_bs[:, :, None] == sequence_ids_bs[:, None, :])[:, None]


def end_to_end(starts_bm: torch.Tensor, seq: int) -> Bounds:
    """The same where rows of ``seq`` tokens hold the sequences that begin there, in order.

    Every place counts for a kernel, whose working memory grows with it, so there are as many as a
    row may hold and no more; those not used are empty.
    """
    first_b1 = torch.arange(len(starts_bm), device=starts_bm.device)[:, None] * seq
    offsets_r = (starts_bm + first_b1).reshape(-1)
    return Bounds(F.pad(offsets_r, (0, 1), value=len(starts_bm) * seq).int(), seq)


def beginnings(sequence_ids_bs: torch.Tensor) -> torch.Tensor:
    """Where the unbroken runs of (b, s) begin, (b, m), and s where a row has fewer: it waits."""
    seq = sequence_ids_bs.shape[1]
    begins_bs = F.pad(sequence_ids_bs.diff(dim=1) != 0, (1, 0), value=True)
    lane_s = torch.arange(seq, device=sequence_ids_bs.device)
    most = int(begins_bs.sum(1).max())
    return torch.where(begins_bs, lane_s, seq).sort(1).values[:, :most]


def not_later(seq: int, device: torch.device) -> torch.Tensor:
    """A mask (1, s, s): tokens see themselves and those before."""
    return torch.ones(1, seq, seq, dtype=torch.bool, device=device).tril()


def in_order(order: Order, also_bqs: torch.Tensor | None) -> torch.Tensor:
    """A mask (b, s + u, s): what the tokens of a row see, then those that do not see themselves.

    ``also`` is a mask (b, 1|s, s) of what could be seen without an order.
    """
    seen_bss = order.rank[:, None, :] < order.before[:, :, None]
    if also_bqs is not None:
        seen_bss = seen_bss & also_bqs
    own_ss = torch.eye(seen_bss.shape[1], dtype=torch.bool, device=seen_bss.device)
    unseen_b1us = _rows((seen_bss & ~own_ss)[:, None], order.unseen)
    return torch.cat([seen_bss | own_ss, unseen_b1us[:, 0]], dim=1)


def opened(mask_bqs: torch.Tensor) -> Ordered:
    """For tokens of which some see nothing."""
    sees = mask_bqs.any(2, keepdim=True)
    return Ordered((mask_bqs | ~sees)[:, None], sees[:, None])


def narrowed(visible: Visible, asked_bk: torch.Tensor, seq: int, before: int) -> Visible:
    """What some of the tokens that ask see, those at positions (b, k).

    The first ``seq`` of them are the row, so many stand ``before`` it.
    """
    match visible:
        case Bounds():
            return visible._replace(asked=asked_bk)
        case Ordered(mask=mask, sees=sees):
            return Ordered(_rows(mask, asked_bk), _rows(sees, asked_bk))
        case Relation():
            own = {
                name: _rows(whole, asked_bk)
                for name in ("mask", "same", "sees")
                if (whole := getattr(visible, name)) is not None
            }
            places = _places(visible.places, asked_bk, seq, before)
            return visible._replace(places=places, **own)
        case torch.Tensor():  # before a string, to which torch 2.11 cannot compare it
            return _rows(visible, asked_bk)
        case "earlier":
            lane_s = torch.arange(seq, device=asked_bk.device)
            return (lane_s <= asked_bk[..., None])[:, None]
        case None:
            return None
        case _:
            assert_never(visible)


def _places(
    unseen_bu: torch.Tensor | None, asked_bk: torch.Tensor, seq: int, before: int
) -> torch.Tensor:
    """Where the states at positions (b, k) stand in the context."""
    if unseen_bu is None:
        return asked_bk + before
    lane_s = torch.arange(before, before + seq, device=asked_bk.device).expand(len(asked_bk), seq)
    return torch.cat([lane_s, unseen_bu], dim=1).gather(1, asked_bk)


def _rows(mask: torch.Tensor, asked_bk: torch.Tensor) -> torch.Tensor:
    """The rows of a mask (b|1, 1, 1|q, s) at positions (b, k)."""
    if mask.shape[2] == 1:
        return mask
    b, k = asked_bk.shape
    mask = mask.expand(b, -1, -1, -1)
    return mask.gather(2, asked_bk[:, None, :, None].expand(b, 1, k, mask.shape[3]))
