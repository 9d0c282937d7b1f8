"""Masking of spans: runs of whole words, and those that a tagger found, among whole words.

Axes: b examples, s positions of a row, d draws (e: earlier draws), n units of a row.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int

from bertc.ir.terms.masking import SpanUnit, TaggedUnit
from bertc.objectives.sampling.arrival import draws_needed, earliest_cover, first_come
from bertc.objectives.sampling.draws import (
    LAST,
    below,
    happens,
    lane_of,
    order_keys,
    smallest,
    unit,
)
from bertc.objectives.words import ROUNDS, Text, Words, next_stop, numbered


def geometric(span: SpanUnit) -> tuple[float, ...]:
    """P(length <= i) for i = 1..max: p(1-p)^(i-1), cut at max and normalised (SpanBERT 3.1)."""
    whole = 1 - (1 - span.p) ** span.max
    return tuple((1 - (1 - span.p) ** i) / whole for i in range(1, span.max + 1))


def span_draws(span: SpanUnit, rate: float, predictions: int) -> int:
    """Number of span anchors drawn per row."""
    lengths = range(1, span.max + 1)
    mass = [later - earlier for earlier, later in pairwise((0.0, *geometric(span)))]
    mean = sum([i * p for i, p in zip(lengths, mass, strict=True)])
    square = sum([i * i * p for i, p in zip(lengths, mass, strict=True)])
    return draws_needed(rate, mean, square, predictions)


def span_keys(
    span: SpanUnit,
    words: Words,
    text: Text,
    lengths_b: Int[torch.Tensor, "b"],
    anchor_bits_bd: Int[torch.Tensor, "b d"],
    length_bits_bd: Int[torch.Tensor, "b d"],
) -> Int[torch.Tensor, "b s"]:
    """Keys (b, s) that sort tokens as spans mask them, ``LAST`` if none does (masking.py).

    An anchor is any token, skipped if masked already; its span starts at the first token of its
    word and has a sampled number of whole words, fewer before a special token. Taking the lowest
    keys up to the budget may cut the last word.
    """
    seq, draws = text.allowed.shape[1], anchor_bits_bd.shape[1]
    anchor_bd = below(anchor_bits_bd, lengths_b[:, None])
    chance_bd, n_bd = unit(length_bits_bd), torch.ones_like(anchor_bd)
    for threshold in geometric(span)[:-1]:
        n_bd = n_bd + (chance_bd >= threshold)
    number_bd = words.number.gather(1, anchor_bd)
    first_bd = words.begin.gather(1, number_bd)
    end_bd = words.begin.gather(1, (number_bd + n_bd).clamp(max=seq + 1))
    end_bd = end_bd.minimum(next_stop(text).gather(1, anchor_bd))
    end_bd = torch.where(text.allowed.gather(1, anchor_bd), end_bd, 0)

    holds_bde = (first_bd[:, None, :] <= anchor_bd[:, :, None]) & (
        anchor_bd[:, :, None] < end_bd[:, None, :]
    )
    end_bd = torch.where(first_come(holds_bde), end_bd, 0)

    arrival_bs = earliest_cover(first_bd, end_bd, seq)
    # Tokens of one span sort in text order.
    lane_s = torch.arange(seq, device=anchor_bd.device)
    keys_bs = (arrival_bs << seq.bit_length()) | lane_s
    return torch.where(arrival_bs < draws, keys_bs, LAST)


def find_spans(codes_bs: Int[torch.Tensor, "b s"], text: Text) -> Words:
    """Number the runs of one code as words are; a token outside of spans is a word by itself."""
    codes_bs = torch.where(text.ordinary, codes_bs, 0)
    within_bs = codes_bs > 0
    before_bs = F.pad(codes_bs[:, :-1], (1, 0))
    begins_bs = ~within_bs | (codes_bs != before_bs)
    return numbered(begins_bs, begins_bs & within_bs & text.allowed)


def choose_tagged(
    tagged: TaggedUnit,
    units: tuple[Words, Words],
    turn_bits_bs: Int[torch.Tensor, "b s"],
    order_bits: Sequence[Int[torch.Tensor, "b s"]],
    counts_b: Int[torch.Tensor, "b"],
    predictions: int,
) -> Bool[torch.Tensor, "b s"]:
    """Spans and whole words in turns up to the budget, as a mask (b, s) over their tokens.

    ``units`` are both, ``order_bits`` their random numbers. Each draw takes a span with probability
    ``tagged.share``, else a word, which may stand in a span (SpanBERT, masking.py
    NERSpanMaskingScheme). Each is drawn once, in random order; when there are no more spans, words
    fill the budget. What would exceed it is skipped, not cut.
    """
    span_turn_bs = happens(turn_bits_bs, tagged.share)
    turns = (span_turn_bs, ~span_turn_bs)
    draws = [
        _draws(each, bits_bs, turns_bs, after)
        for after, (each, bits_bs, turns_bs) in enumerate(
            zip(units, order_bits, turns, strict=True), 1
        )
    ]
    taken_bs, left_b1 = torch.zeros_like(span_turn_bs), counts_b[:, None]
    never_b1 = torch.full_like(left_b1, LAST)
    for _ in range(ROUNDS):
        # Units that no longer fit are passed over; then all are taken up to the first that would
        # exceed the budget.
        draw_bs = torch.full_like(draws[0], LAST)
        for each, of_each_bs in zip(units, draws, strict=True):
            fits_bs = ~taken_bs & (_added(each, taken_bs) <= left_b1)
            draw_bs = torch.where(fits_bs, draw_bs.minimum(of_each_bs), draw_bs)
        # F.pad would round ``LAST`` to a float.
        ranked = smallest(torch.cat([draw_bs, never_b1], dim=1), predictions + 1)
        now_bs = draw_bs < ranked.gather(1, left_b1)
        taken_bs, left_b1 = taken_bs | now_bs, left_b1 - now_bs.sum(1, keepdim=True)
    return taken_bs


def _draws(
    units: Words,
    bits_bs: Int[torch.Tensor, "b s"],
    turns_bs: Bool[torch.Tensor, "b s"],
    after: int,
) -> Int[torch.Tensor, "b s"]:
    """The draw (b, s) that takes the unit of each token; ``LAST`` if none does.

    Unit i in random order is taken at the i-th of its turns, or ``after`` s + i if it has fewer.
    """
    seq = bits_bs.shape[1]
    keys_bn = smallest(order_keys(bits_bs, units.heads), seq)
    head_bn = torch.where(keys_bn == LAST, seq, lane_of(keys_bn, seq))
    rank_n = torch.arange(seq, device=bits_bs.device)
    turn_bn = torch.searchsorted(turns_bs.cumsum(1), (rank_n + 1).expand_as(bits_bs).contiguous())
    draw_bn = torch.where(turn_bn < seq, turn_bn, after * seq + rank_n)
    # Column s collects the places beyond the last unit, and is dropped.
    draws = torch.full((len(bits_bs), seq + 1), LAST, device=bits_bs.device)
    draws.scatter_reduce_(1, head_bn, draw_bn, "amin")
    draws[:, seq] = LAST
    return draws.gather(1, units.begin.gather(1, units.number))


def _added(units: Words, taken_bs: Bool[torch.Tensor, "b s"]) -> Int[torch.Tensor, "b s"]:
    """Tokens (b, s) of the unit of each token that are not yet taken."""
    open_b = F.pad((~taken_bs).cumsum(1), (1, 0))
    first_bs, end_bs = (units.begin.gather(1, units.number + at) for at in (0, 1))
    return open_b.gather(1, end_bs) - open_b.gather(1, first_bs)
