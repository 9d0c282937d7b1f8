"""Masking of spans of whole words, and of word n-grams."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bertc.ir.terms.masking import SpanUnit
from bertc.learn.objectives import draws
from bertc.learn.objectives.text.choice import Text, Words, first_words, next_stop


def lengths_below(span: SpanUnit) -> tuple[float, ...]:
    """P(length <= i) for i = 1..max: p(1-p)^(i-1), cut at max and normalised; or by ``lengths``."""
    if span.lengths == "fixed":
        return (*[0.0] * (span.max - 1), 1.0)
    if span.lengths == "uniform":
        return tuple(i / span.max for i in range(1, span.max + 1))
    total = 1 - (1 - span.p) ** span.max
    return tuple((1 - (1 - span.p) ** i) / total for i in range(1, span.max + 1))


def span_draws(span: SpanUnit, rate: float, predictions: int) -> int:
    """Number of span anchors drawn per row."""
    below = pairwise((0.0, *lengths_below(span)))
    mass = [(i, later - earlier) for i, (earlier, later) in enumerate(below, 1)]
    mean, square = sum([i * p for i, p in mass]), sum([i * i * p for i, p in mass])
    return draws.draws_needed(rate, mean, square, predictions)


def span_keys(
    span: SpanUnit,
    words: Words,
    text: Text,
    lengths_b: Int[Tensor, "b"],
    anchor_bits_bd: Int[Tensor, "b d"],
    length_bits_bd: Int[Tensor, "b d"],
) -> Int[Tensor, "b s"]:
    """Keys (b, s) that sort tokens as spans mask them, ``LAST`` if none does (masking.py).

    An anchor is any token, skipped if masked already; its span starts at the first token of its
    word and has a sampled number of whole words, fewer before a special token. Taking the lowest
    keys up to the budget may cut the last word.
    """
    seq, count = text.allowed.shape[1], anchor_bits_bd.shape[1]
    anchor_bd = draws.below(anchor_bits_bd, lengths_b[:, None])
    chance_bd, n_bd = draws.unit(length_bits_bd), torch.ones_like(anchor_bd)
    for threshold in lengths_below(span)[:-1]:
        n_bd = n_bd + (chance_bd >= threshold)
    number_bd = words.number.gather(1, anchor_bd)
    first_bd = words.begin.gather(1, number_bd)
    end_bd = words.begin.gather(1, (number_bd + n_bd).clamp(max=seq + 1))
    end_bd = end_bd.minimum(next_stop(text).gather(1, anchor_bd))
    end_bd = torch.where(text.allowed.gather(1, anchor_bd), end_bd, 0)

    anchor_bd1 = anchor_bd[:, :, None]
    holds_bde = (first_bd[:, None, :] <= anchor_bd1) & (anchor_bd1 < end_bd[:, None, :])
    end_bd = torch.where(draws.first_come(holds_bde), end_bd, 0)

    arrival_bs = draws.earliest_cover(first_bd, end_bd, seq)
    # Tokens of one span sort in text order.
    lane_s = torch.arange(seq, device=anchor_bd.device)
    keys_bs = (arrival_bs << seq.bit_length()) | lane_s
    return torch.where(arrival_bs < count, keys_bs, draws.LAST)


TAIL = 8  # draws processed one by one after the first that exceeds the budget


def ngram_draws(most: int, rate: float, predictions: int) -> int:
    """Number of n-gram starts drawn per row."""
    total = sum([1 / n for n in range(1, most + 1)])
    return draws.draws_needed(rate, most / total, most * (most + 1) / 2 / total, predictions)


def choose_ngrams(
    most: int,
    words: Words,
    text: Text,
    order_bits_bs: Int[Tensor, "b s"],
    length_bits_bd: Int[Tensor, "b d"],
    counts_b: Int[Tensor, "b"],
) -> Bool[Tensor, "b s"]:
    """N-grams of whole words, P(n) ~ 1/n, as a mask (b, s) (ALBERT create_pretraining_data.py).

    First words are drawn in random order. An n-gram is cut at the end of the text, at a special
    token, and to the budget; it is dropped if it overlaps an earlier one.
    """
    seq = order_bits_bs.shape[1]
    head_bd, ends_bdn = _draw(most, words, text, order_bits_bs, length_bits_bd)
    end_bd = ends_bdn.amax(2)
    begins_bde = head_bd[:, None, :] < end_bd[:, :, None]
    meets_bde = (end_bd[:, None, :] > head_bd[:, :, None]) & begins_bde
    stands_bd = draws.first_come(meets_bde)
    length_bd = end_bd - head_bd
    spent_bd = torch.where(stands_bd, length_bd, 0)
    # No draw is shortened up to the first that exceeds the budget, so all verdicts hold.
    over_bd = spent_bd.cumsum(1) - spent_bd + length_bd > counts_b[:, None]
    settled_bd = over_bd.cumsum(1) == 0
    taken_bd = torch.where(stands_bd & settled_bd, end_bd, 0)
    left_b1 = counts_b[:, None] - torch.where(settled_bd, spent_bd, 0).sum(1, keepdim=True)
    # The rest of the budget is spent on further draws, cut to whole words.
    step_t = torch.arange(TAIL, device=head_bd.device)
    at_bt = (settled_bd.sum(1, keepdim=True) + step_t).clamp(max=ends_bdn.shape[1] - 1)
    head_bt = head_bd.gather(1, at_bt)
    ends_btn = ends_bdn.gather(1, at_bt[..., None].expand(-1, -1, ends_bdn.shape[2]))
    for step in range(TAIL):
        now = slice(step, step + 1)
        at_b1, head_b1, ends_b1n = at_bt[:, now], head_bt[:, now], ends_btn[:, now]
        fits_b1n = ends_b1n <= (head_b1 + left_b1)[..., None]
        end_b1 = torch.where(fits_b1n, ends_b1n, 0).amax(2)
        meets_b1 = ((taken_bd > head_b1) & (head_bd < end_b1)).any(1, keepdim=True)
        end_b1 = torch.where(meets_b1, 0, end_b1)
        left_b1 = left_b1 - (end_b1 - head_b1).clamp(min=0)
        taken_bd = taken_bd.scatter_reduce(1, at_b1, end_b1, "amax")
    return draws.union(head_bd, taken_bd, seq)


def _draw(
    most: int, words: Words, text: Text, order_bs: Int[Tensor, "b s"], length_bd: Int[Tensor, "b d"]
) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n m"]]:
    """First words (b, d), and ends after their first 1, 2, ... words (b, d, n)."""
    last = order_bs.shape[1] + 1
    real_bd, head_bd, number_bd = first_words(words, order_bs, length_bd.shape[1])
    stop_bd = next_stop(text).gather(1, head_bd)
    chance_bd = draws.unit(length_bd[:, : head_bd.shape[1]])
    beyond_bd = harmonic(chance_bd, torch.full_like(head_bd, most - 1), most)
    drawn = []
    for n in range(1, most + 1):
        end_bd = words.begin.gather(1, (number_bd + n).clamp(max=last)).minimum(stop_bd)
        drawn.append(torch.where(beyond_bd >= n - 1, end_bd, 0))
    return head_bd, torch.where(real_bd[..., None], torch.stack(drawn, dim=2), 0)


def harmonic(
    chance_bd: Float[Tensor, "b d"], possible_bd: Int[Tensor, "b d"], most: int
) -> Int[Tensor, "b d"]:
    """n - 1 for n of 1..possible+1 with P(n) proportional to 1/n; (b, d) int64."""
    sums = [sum([1 / n for n in range(1, m + 1)]) for m in range(1, most + 1)]
    total_bd = torch.full_like(chance_bd, sums[0])
    for m in range(1, most):
        total_bd = torch.where(possible_bd >= m, sums[m], total_bd)
    scaled_bd = chance_bd * total_bd
    beyond_bd = torch.zeros_like(possible_bd)
    for reached in sums[:-1]:
        beyond_bd = beyond_bd + (scaled_bd >= reached)
    return beyond_bd.minimum(possible_bd)
