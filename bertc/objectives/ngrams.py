"""Masking of n-grams of words.

Axes: b examples, s positions of a row, d draws, n lengths. The loop is over draws, on tensors of
(b, d); rows go side by side.
"""

import torch

from bertc.objectives.draws import unit
from bertc.objectives.selection import draws_needed
from bertc.objectives.words import Text, Words, first_words, next_stop


def ngram_draws(most: int, rate: float, predictions: int) -> int:
    """First words tried in each row."""
    total = sum([1 / n for n in range(1, most + 1)])
    return draws_needed(rate, most / total, most * (most + 1) / 2 / total, predictions)


def choose_ngrams(
    most: int,
    words: Words,
    text: Text,
    order_bits_bs: torch.Tensor,
    length_bits_bd: torch.Tensor,
    counts_b: torch.Tensor,
) -> torch.Tensor:
    """N-grams of whole words, P(n) ~ 1/n, as marks (b, s) (ALBERT create_pretraining_data.py).

    First words come in random order. Near the end of a text only the n that fit are drawn; an
    n-gram over the budget is shortened until it fits, and one that meets a taken word is dropped.
    An n-gram ends where a special token stands.
    """
    seq, draws = order_bits_bs.shape[1], length_bits_bd.shape[1]
    real_bd, head_bd, number_bd = first_words(words, order_bits_bs, draws)
    stop_bd = next_stop(text).gather(1, head_bd)
    ends: list[torch.Tensor] = []
    end_bd, possible_bd = head_bd, torch.zeros_like(head_bd)
    for n in range(1, most + 1):
        end_bd = words.begin.gather(1, (number_bd + n).clamp(max=seq + 1)).minimum(stop_bd)
        possible_bd = possible_bd + (end_bd > (ends[-1] if ends else head_bd))
        ends.append(end_bd)
    n_bd = _harmonic(unit(length_bits_bd[:, : head_bd.shape[1]]), possible_bd, most)
    # ends_bdn[..., j]: end of the first j+1 words; of no words at all where j+1 exceeds the draw.
    drawn = [torch.where(n_bd > j, ends[j], head_bd) for j in range(most)]
    ends_bdn = torch.where(real_bd[..., None], torch.stack(drawn, dim=2), 0)

    left_b = counts_b
    taken_ends = torch.zeros_like(head_bd)
    for d in range(head_bd.shape[1]):
        head_b = head_bd[:, d]
        within_bn = ends_bdn[:, d] <= (head_b + left_b)[:, None]
        end_b = torch.where(within_bn, ends_bdn[:, d], 0).amax(1)
        meets_bd = (taken_ends > head_b[:, None]) & (head_bd < end_b[:, None])
        end_b = torch.where(meets_bd.any(1) | (end_b <= head_b), 0, end_b)
        taken_ends[:, d] = end_b
        left_b = left_b - (end_b - head_b).clamp(min=0)
    return _between(head_bd, taken_ends, seq)


def _harmonic(chance_bd: torch.Tensor, possible_bd: torch.Tensor, most: int) -> torch.Tensor:
    """n of 1..possible with P(n) proportional to 1/n, (b, d) long."""
    sums = [sum([1 / n for n in range(1, m + 1)]) for m in range(1, most + 1)]
    total_bd = torch.full_like(chance_bd, sums[0])
    for m in range(2, most + 1):
        total_bd = torch.where(possible_bd >= m, sums[m - 1], total_bd)
    scaled_bd = chance_bd * total_bd
    n_bd = torch.ones_like(possible_bd)
    for below_n in sums[:-1]:
        n_bd = n_bd + (scaled_bd >= below_n)
    return n_bd.minimum(possible_bd)


def _between(first_bd: torch.Tensor, end_bd: torch.Tensor, seq: int) -> torch.Tensor:
    """Marks (b, s) on the positions of all intervals; one with end 0 is empty."""
    reach = torch.zeros(len(first_bd), seq + 1, dtype=torch.long, device=first_bd.device)
    reach.scatter_(1, torch.where(end_bd > 0, first_bd, seq), end_bd)
    lane_s = torch.arange(seq, device=first_bd.device)
    return reach[:, :seq].cummax(1).values > lane_s
