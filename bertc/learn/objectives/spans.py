"""Masking of spans: runs of whole words.

Axes: b examples, s positions of a row, d draws (e: earlier draws).
"""

from itertools import pairwise

import torch
from jaxtyping import Int

from bertc.ir.terms.masking import SpanUnit
from bertc.learn.objectives.sampling.arrival import draws_needed, earliest_cover, first_come
from bertc.learn.objectives.sampling.draws import LAST, below, unit
from bertc.learn.objectives.words import Text, Words, next_stop


def geometric(span: SpanUnit) -> tuple[float, ...]:
    """P(length <= i) for i = 1..max: p(1-p)^(i-1), cut at max and normalised (SpanBERT 3.1)."""
    total = 1 - (1 - span.p) ** span.max
    return tuple((1 - (1 - span.p) ** i) / total for i in range(1, span.max + 1))


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
