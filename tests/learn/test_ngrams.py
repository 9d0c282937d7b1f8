"""Masking of n-grams against ALBERT's loop and closed forms."""

import pytest
import torch
from scipy import stats

from bertc.learn.objectives.spans import _draw, ngram_draws
from tests.learn import references
from tests.learn.material import rows, vocab
from tests.learn.samples import draw_order, sample


@pytest.mark.parametrize(("p", "most"), [(0.15, 3), (0.15, 1), (0.3, 2), (0.15, 6)])
def test_ngrams_are_those_of_the_loop(p, most):
    case = sample(rows(400, 64), p, vocab())
    marks = case.ngrams(most)
    chances = ((case.ngram_chances(most) >> 40 & 0xFFFFFF).double() * 2.0**-24).tolist()
    differing = 0
    for row, words in enumerate(case.words_of_row):
        order, budget = draw_order(case, row), int(case.budget[row])
        wanted = references.ngrams(words, order, chances[row], most, budget)
        given = set(marks[row].nonzero()[:, 0].tolist())
        # Only the last few tokens of a budget can be missed, once in a thousand rows.
        assert given <= wanted
        differing += given != wanted
    assert differing <= 2


def test_lengths_have_odds_of_one_over_n_and_a_mean_of_1_636_words():
    case = sample(rows(1500, 128, full=True, pairs=False), 0.15, vocab(continues=1000))
    order, chances = case.bits(1, 128), case.ngram_chances(3)
    head, ends = _draw(3, case.words, case.text, order, chances)
    lengths = (ends > 0).sum(2)[head < 124]  # far from the end, where all three are possible
    counts = torch.bincount(lengths, minlength=4)[1:].double()
    odds = torch.tensor([6, 3, 2]).double() * len(lengths) / 11
    assert stats.chisquare(counts.numpy(), odds.numpy()).pvalue > 1e-4
    assert lengths.double().mean().item() == pytest.approx(18 / 11, abs=0.02)
    assert pytest.approx(1.636, abs=0.001) == 18 / 11


def test_at_the_end_of_a_text_longer_ones_are_cut():
    case = sample(rows(4000, 24, full=True), 0.5, vocab(continues=1000))
    head, ends = _draw(3, case.words, case.text, case.bits(1, 24), case.ngram_chances(3))
    lengths = (ends > 0).sum(2)
    words = ends.amax(2) - head  # each is a token
    assert set(words[(lengths > 0) & ((head == 22) | (head == 11))].tolist()) == {1}
    for second_last in (21, 10):
        counts = torch.bincount(words[(lengths > 0) & (head == second_last)], minlength=3)[1:]
        assert len(counts) == 2
        share = counts[0].item() / counts.sum().item()
        assert abs(share - 6 / 11) < 4 * (30 / 121 / counts.sum().item()) ** 0.5


def test_enough_words_are_tried_to_fill_rows():
    case = sample(rows(1000, 128, full=True), 0.15, vocab(continues=1000))
    assert (case.ngrams(3).sum(1) < case.budget).sum() <= 4
    assert ngram_draws(3, 0.15, 20) < 40
