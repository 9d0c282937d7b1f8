"""Masking of spans of words.

Axes: b examples, s positions of a row, d draws. The loops are over draws; rows go side by side.
"""

from itertools import pairwise

import torch

from bertc.ir.objective import SpanUnit
from bertc.objectives.draws import LAST, below, unit
from bertc.objectives.selection import draws_needed
from bertc.objectives.words import Text, Words, next_stop


def geometric(span: SpanUnit) -> tuple[float, ...]:
    """P(length <= i) for i = 1..max: p(1-p)^(i-1), cut at max and normalised (SpanBERT 3.1)."""
    whole = 1 - (1 - span.p) ** span.max
    return tuple((1 - (1 - span.p) ** i) / whole for i in range(1, span.max + 1))


def span_draws(span: SpanUnit, rate: float, predictions: int) -> int:
    """Anchors tried in each row."""
    lengths = range(1, span.max + 1)
    mass = [later - earlier for earlier, later in pairwise((0.0, *geometric(span)))]
    mean = sum([i * p for i, p in zip(lengths, mass, strict=True)])
    square = sum([i * i * p for i, p in zip(lengths, mass, strict=True)])
    return draws_needed(rate, mean, square, predictions)


def span_keys(
    span: SpanUnit,
    words: Words,
    text: Text,
    lengths_b: torch.Tensor,
    anchor_bits_bd: torch.Tensor,
    length_bits_bd: torch.Tensor,
) -> torch.Tensor:
    """Keys (b, s) that sort tokens as spans take them, ``LAST`` where none does (masking.py).

    An anchor is any token, passed over if taken already; its span starts at the first token of
    its word and has a drawn number of whole words, fewer before a special token. Taking the
    lowest keys up to the budget may cut the last word.
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

    taken_ends = torch.zeros_like(end_bd)
    for d in range(draws):
        anchor_b1 = anchor_bd[:, d, None]
        taken_bd = (first_bd <= anchor_b1) & (taken_ends > anchor_b1)
        taken_ends[:, d] = torch.where(taken_bd.any(1), 0, end_bd[:, d])

    lane_s = torch.arange(seq, device=anchor_bd.device)
    arrival_bs = torch.full((len(lengths_b), seq), draws, device=anchor_bd.device)
    for d in reversed(range(draws)):
        within_bs = (lane_s >= first_bd[:, d, None]) & (lane_s < taken_ends[:, d, None])
        arrival_bs = torch.where(within_bs, d, arrival_bs)
    keys_bs = (arrival_bs << seq.bit_length()) | lane_s
    return torch.where(arrival_bs < draws, keys_bs, LAST)
