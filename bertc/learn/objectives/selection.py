"""Number of predictions per row, and conversion of choices to positions in text order.

Axes: b examples, s positions of a row, k predictions. An unused slot of (b, k) positions holds s,
so that it sorts last.
"""

from typing import assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from bertc.ir.terms.masking import Count
from bertc.learn.objectives.draws import LAST, below, lane_of, smallest, unit
from bertc.learn.objectives.text.words import Text


def counts(
    how: Count,
    share: float,
    lengths_b: Int[Tensor, "b"],
    text: Text,
    bits_b: Int[Tensor, "b"],
    most: int,
) -> Int[Tensor, "b"]:
    """Number of tokens to predict in each row (b,), at most ``most``.

    Products are in fp64, so that they round as the official Python code does: nearest is BERT's
    round-half-even over all tokens and at least 1 (create_pretraining_data.py), up SpanBERT's
    ceil over what may be chosen (masking.py), stochastic fairseq's int(x + u) over all tokens
    (mask_tokens_dataset.py).
    """
    match how:
        case "nearest":
            wanted_b = (lengths_b.double() * share).round().clamp(min=1)
        case "up":
            wanted_b = (text.allowed.sum(1).double() * share).ceil()
        case "stochastic":
            wanted_b = lengths_b.double() * share + unit(bits_b)
        case _:
            assert_never(how)
    return wanted_b.clamp(max=most).long()


def lowest(
    keys_bs: Int[Tensor, "b s"], counts_b: Int[Tensor, "b"], predictions: int
) -> Int[Tensor, "b {predictions}"]:
    """Positions (b, k) of the ``counts_b`` lowest keys of each row; ``LAST`` is never chosen."""
    seq = keys_bs.shape[1]
    first_bk = smallest(keys_bs, predictions)
    slot_k = torch.arange(predictions, device=keys_bs.device)
    taken_bk = (slot_k < counts_b[:, None]) & (first_bk != LAST)
    return smallest(torch.where(taken_bk, lane_of(first_bk, seq), seq), predictions)


def drawn_again(
    text: Text, bits_bk: Int[Tensor, "b k"], counts_b: Int[Tensor, "b"]
) -> Int[Tensor, "b k"]:
    """Allowed positions (b, k) drawn with replacement (ELECTRA, pretrain_helpers.py mask)."""
    seq, slot_k = text.allowed.shape[1], torch.arange(bits_bk.shape[1], device=bits_bk.device)
    rank_bs = text.allowed.cumsum(1)
    drawn_bk = below(bits_bk, rank_bs[:, -1:]) + 1
    # Without a candidate the search ends beyond the row.
    positions_bk = torch.searchsorted(rank_bs, drawn_bk)
    return torch.where(slot_k < counts_b[:, None], positions_bk, seq).sort(1).values


def marked(chosen_bs: Bool[Tensor, "b s"], predictions: int) -> Int[Tensor, "b {predictions}"]:
    """Positions (b, k) of the True entries of each row, at most k of them."""
    b, seq = chosen_bs.shape
    slot_bs = torch.where(chosen_bs, chosen_bs.cumsum(1), 0)
    lane_bs = torch.arange(seq, device=chosen_bs.device).expand(b, seq)
    # Slot 0 collects the unmarked positions and is dropped.
    positions = torch.full((b, predictions + 1), seq, device=chosen_bs.device)
    return positions.scatter_reduce_(1, slot_bs, lane_bs, "amin")[:, 1:]


def runs(
    positions_bk: Int[Tensor, "b k"], used_bk: Bool[Tensor, "b k"]
) -> tuple[Int[Tensor, "b k"], Int[Tensor, "b k"]]:
    """For each slot, the slots (b, k) of the first and last prediction of its contiguous run."""
    predictions = positions_bk.shape[1]
    slot_k = torch.arange(predictions, device=positions_bk.device)
    joined = (positions_bk.diff(dim=1) == 1) & used_bk[:, 1:]
    opens_bk = F.pad(~joined, (1, 0), value=True)
    closes_bk = F.pad(~joined, (0, 1), value=True)
    first_bk = torch.where(opens_bk, slot_k, 0).cummax(1).values
    last_bk = torch.where(closes_bk, slot_k, predictions - 1)
    return first_bk, last_bk.flip(1).cummin(1).values.flip(1)
