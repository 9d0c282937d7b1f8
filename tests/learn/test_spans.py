"""Masking of spans against SpanBERT's loop and closed forms, and the tokens around them."""

import math
from itertools import groupby

import pytest
import torch
from scipy import stats

from bertc.ir.terms.masking import SpanUnit
from bertc.learn.objectives import MicroBatch
from bertc.learn.objectives.draws import earliest_cover, first_come, union
from bertc.learn.objectives.spans import geometric
from tests.learn import references
from tests.learn.material import MASK, ORDINARY, chosen, corrupted, rows, vocab
from tests.learn.samples import sample

SPANBERT = "mlm(unit=span(0.2, 10), replace_per=span, random_from=corpus, count=up)"


@pytest.mark.parametrize(("p", "span"), [(0.15, (0.2, 10)), (0.4, (0.2, 10)), (0.15, (0.5, 3))])
def test_spans_are_those_of_the_loop(p, span):
    case, unit = sample(rows(400, 64), p, vocab()), SpanUnit(p=span[0], max=span[1])
    marks = case.spans(unit)
    anchors, lengths = case.span_draws(unit)
    for row, words in enumerate(case.words_of_row):
        budget = int(case.budget[row])
        wanted = references.spans(words, anchors[row], lengths[row], budget)
        assert set(marks[row].nonzero()[:, 0].tolist()) == wanted


def test_lengths_are_geometric_with_a_mean_of_3_797_words():
    edges = (0.0, *geometric(SpanUnit()))
    odds = [later - earlier for earlier, later in zip(edges, edges[1:], strict=False)]
    assert edges[-1] == 1
    assert odds[0] == pytest.approx(0.2241, abs=5e-5)
    assert odds[9] == pytest.approx(0.0301, abs=5e-5)
    assert sum(i * p for i, p in enumerate(odds, 1)) == pytest.approx(3.797, abs=5e-4)
    _, lengths = sample(rows(3000, 64), 0.15, vocab()).span_draws(SpanUnit())
    drawn = torch.tensor(lengths).flatten()
    counts = torch.bincount(drawn, minlength=11)[1:]
    expected = [p * len(drawn) for p in odds]
    assert stats.chisquare(counts.numpy(), expected).pvalue > 1e-4
    assert drawn.double().mean().item() == pytest.approx(3.797, abs=0.05)


def test_rows_are_filled():
    case = sample(rows(1000, 128, full=True), 0.15, vocab(continues=1000))
    assert (case.spans(SpanUnit()).sum(1) < case.budget).sum() <= 3


def test_at_most_one_word_a_row_is_cut():
    case = sample(rows(300, 64), 0.15, vocab(continues=500))
    for marks, words in zip(case.spans(SpanUnit()), case.words_of_row, strict=True):
        cut = [w for w in words if 0 < marks[slice(*w)].sum() < w[1] - w[0]]
        assert len(cut) <= 1
        assert all(marks[begin] for begin, _ in cut)


def merged(marks: torch.Tensor) -> list[list[int]]:
    """Unbroken runs of marked positions of one row."""
    positions = marks.nonzero()[:, 0].tolist()
    grouped = groupby(enumerate(positions), lambda pair: pair[1] - pair[0])
    return [[position for _, position in run] for _, run in grouped]


def test_a_merged_span_shares_its_draw():
    inputs = rows(1500, 64, full=True)
    batch = corrupted(SPANBERT, inputs)
    marks, fates = chosen(batch), torch.zeros(3)
    for row in range(1500):
        for run in merged(marks[row]):
            new, old = batch.reading.token_ids[row, run], inputs.token_ids[row, run]
            masked, kept = bool((new == MASK).all()), bool((new == old).all())
            assert masked or not (new == MASK).any()
            if len(run) > 2:
                fates += torch.tensor([masked, not masked and not kept, kept])
    expected = torch.tensor([0.8, 0.1, 0.1]) * fates.sum()
    assert stats.chisquare(fates.numpy(), expected.numpy(), sum_check=False).pvalue > 1e-4


def pairs_by_loop(batch: MicroBatch, row: int, length: int, most: int) -> set[tuple[int, ...]]:
    """(left, right, place, target) of every pair of a row; none at either end of a text."""
    ids, marks = batch.originals[row], chosen(batch)[row]
    return {
        (run[0] - 1, run[-1] + 1, place, int(ids[token]))
        for run in merged(marks)
        for place, token in enumerate(run[:most])
        if run[0] > 0 and run[-1] + 1 < length
        if min(ids[run[0] - 1], ids[run[-1] + 1]) >= ORDINARY
    }


@pytest.mark.parametrize("most", [15, 3])
@pytest.mark.parametrize("specials", ["false", "true"])
def test_boundaries_are_outside_their_spans_and_never_masked(most, specials):
    inputs = rows(200, 48)
    objective = f"mlm(unit=span, p=30%, mask_specials={specials}) + sbo({most})"
    batch = corrupted(objective, inputs)
    asked, marks = batch.terms["sbo"], chosen(batch)
    assert asked.left.shape == asked.weights.shape == batch.terms["mlm"].positions.shape
    used = asked.weights.bool()
    assert not marks.gather(1, asked.left)[used].any()
    assert not marks.gather(1, asked.right)[used].any()
    assert (asked.right < inputs.lengths[:, None])[used].all()
    for row in range(200):
        fields = (asked.left, asked.right, asked.place, asked.targets)
        given = [tuple(f[row, slot].item() for f in fields) for slot in used[row].nonzero()[:, 0]]
        assert len(given) == len(set(given))
        assert set(given) == pairs_by_loop(batch, row, int(inputs.lengths[row]), most)


def test_first_come_settles_chains_from_the_front():
    # 0 bars 1, 1 bars 2, 2 bars 3; 4 is told off by a later draw, which does not count.
    bars = torch.zeros(1, 5, 5, dtype=torch.bool)
    bars[0, 1, 0] = bars[0, 2, 1] = bars[0, 3, 2] = True
    bars[0, 0, 4] = True
    assert first_come(bars).tolist() == [[True, False, True, False, True]]


def test_the_earliest_cover_is_that_of_a_loop():
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(0, 37, (50, 9), generator=generator)
    end = (first + torch.randint(-2, 30, (50, 9), generator=generator)).clamp(0, 37)
    cover = earliest_cover(first, end, 37)
    for row in range(50):
        intervals = list(zip(first[row].tolist(), end[row].tolist(), strict=True))
        wanted = [
            next((d for d, (a, b) in enumerate(intervals) if a <= at < b), 9) for at in range(37)
        ]
        assert cover[row].tolist() == wanted
    distinct = torch.rand(50, 37, generator=generator).argsort(1)[:, :9]
    reach = union(distinct, distinct + 3, 37)
    assert torch.equal(reach, earliest_cover(distinct, (distinct + 3).clamp(max=37), 37) < 9)


def test_span_lengths_are_even_for_one_word():
    assert geometric(SpanUnit(max=1)) == (1.0,)
    assert math.isclose(geometric(SpanUnit(p=0.9, max=2))[0], 0.9 / 0.99)
