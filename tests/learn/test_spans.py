"""Masking of spans against SpanBERT's loop and closed forms, and the tokens around them."""

import math
from itertools import groupby

import pytest
import torch
from scipy import stats

from bertc.api import resolve
from bertc.ir.terms.masking import SpanUnit
from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors
from bertc.learn.objectives.draws import earliest_cover, first_come, union
from bertc.learn.objectives.text.choice import Text, Words, find_text, find_words, next_stop
from bertc.learn.objectives.text.spans import _draw, lengths_below, ngram_draws
from tests.learn import samples
from tests.learn.material import CONTINUES, MASK, ORDINARY, chosen, corrupted, rows, vocab
from tests.learn.samples import draw_order, sample


@pytest.mark.parametrize(("p", "span"), [(0.15, (0.2, 10)), (0.4, (0.2, 10)), (0.15, (0.5, 3))])
def test_spans_are_those_of_the_loop(p, span):
    case, unit = sample(rows(400, 64), p, vocab()), SpanUnit(p=span[0], max=span[1])
    marks = case.spans(unit)
    anchors, lengths = case.span_draws(unit)
    for row, words in enumerate(case.words_of_row):
        wanted = samples.spans(words, anchors[row], lengths[row], int(case.budget[row]))
        assert set(marks[row].nonzero()[:, 0].tolist()) == wanted


def test_lengths_are_geometric_with_a_mean_of_3_797_words():
    edges = (0.0, *lengths_below(SpanUnit()))
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


def test_spans_of_ltg_bert_have_its_lengths():
    """dataset.py takes geometric lengths modulo 10; a span of 0 tokens masks nothing."""
    stage = resolve("extends ltg hidden=16 layers=1 heads=1 ffn=16 vocab=90 steps=1").stages[0]
    drawn = [sum((2 / 3) ** (n - 1) for n in range(rest, 300, 10)) for rest in range(1, 10)]
    below = [sum(drawn[:most]) / sum(drawn) for most in range(1, 10)]
    assert lengths_below(stage.objective[0].objective.unit) == pytest.approx(below, abs=1e-5)


def merged(marks: torch.Tensor) -> list[list[int]]:
    """Unbroken runs of marked positions of one row."""
    grouped = groupby(enumerate(marks.nonzero()[:, 0].tolist()), lambda pair: pair[1] - pair[0])
    return [[position for _, position in run] for _, run in grouped]


def test_a_merged_span_shares_its_draw():
    inputs = rows(1500, 64, full=True)
    objective = "mlm(unit=span(0.2, 10), replace_per=span, random_from=corpus, count=up)"
    batch = corrupted(objective, inputs)
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
    batch = corrupted(f"mlm(unit=span, p=30%, mask_specials={specials}) + sbo({most})", inputs)
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
        intervals = [range(a, b) for a, b in zip(first[row], end[row], strict=True)]
        wanted = [next((d for d, part in enumerate(intervals) if n in part), 9) for n in range(37)]
        assert cover[row].tolist() == wanted
    distinct = torch.rand(50, 37, generator=generator).argsort(1)[:, :9]
    reach = union(distinct, distinct + 3, 37)
    assert torch.equal(reach, earliest_cover(distinct, (distinct + 3).clamp(max=37), 37) < 9)


def test_span_lengths_are_even_for_one_word():
    assert lengths_below(SpanUnit(max=1)) == (1.0,)
    assert lengths_below(SpanUnit(max=4, lengths="uniform")) == (0.25, 0.5, 0.75, 1.0)
    assert lengths_below(SpanUnit(max=3, lengths="fixed")) == (0.0, 0.0, 1.0)
    assert math.isclose(lengths_below(SpanUnit(p=0.9, max=2))[0], 0.9 / 0.99)


@pytest.mark.parametrize(("p", "most"), [(0.15, 3), (0.15, 1), (0.3, 2), (0.15, 6)])
def test_ngrams_are_those_of_the_loop(p, most):
    case = sample(rows(400, 64), p, vocab())
    marks = case.ngrams(most)
    chances = ((case.ngram_chances(most) >> 40 & 0xFFFFFF).double() * 2.0**-24).tolist()
    differing = 0
    for row, words in enumerate(case.words_of_row):
        order, budget = draw_order(case, row), int(case.budget[row])
        wanted = samples.ngrams(words, order, chances[row], most, budget)
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
    assert (case.spans(SpanUnit()).sum(1) < case.budget).sum() <= 3
    assert (case.ngrams(3).sum(1) < case.budget).sum() <= 4
    assert ngram_draws(3, 0.15, 20) < 40


SPECIALS = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>"]

# The same text three times: the pieces, and how each tokenizer writes that a word begins.
SPELLED = {
    "wordpiece": ("<cls> play ##ing chess <sep> ##s well ##known . <sep> <pad>",
                  "play chess well ."),
    "byte-bpe": ("<cls> play ing Ġchess <sep> s Ġwell known . <sep> <pad>", "Ġchess Ġwell ."),
    "sentencepiece": ("<cls> ▁play ing ▁chess <sep> s ▁well known . <sep> <pad>",
                      "▁play ▁chess ▁well ."),
}  # fmt: skip


def spell(pieces: list[str], starts: set[str]) -> tuple[Text, Words]:
    """Words of one row in a vocabulary of just its pieces."""
    vocabulary = [*SPECIALS, *sorted(set(pieces) - set(SPECIALS))]
    known = VocabTensors(
        size=len(vocabulary), pad=0, cls=2, sep=3, mask=4,
        word_start=torch.tensor([piece in starts for piece in vocabulary]),
        special=torch.tensor([piece in SPECIALS for piece in vocabulary]),
        unigram_cdf=torch.linspace(0, 1, len(vocabulary)),
        frequency=torch.ones(len(vocabulary)).double(),
    )  # fmt: skip
    ids = torch.tensor([[vocabulary.index(piece) for piece in pieces]])
    text = find_text(ids, torch.tensor([[piece != "<pad>" for piece in pieces]]), known)
    return text, find_words(ids, text, known)


@pytest.mark.parametrize("name", SPELLED)
def test_words_of_three_kinds_of_tokenizers(name: str) -> None:
    pieces, starts = SPELLED[name]
    text, words = spell(pieces.split(), {*starts.split()})
    # What follows a special token begins a word, whatever its mark; specials stand alone.
    assert words.number[0].tolist() == [1, 2, 2, 3, 4, 5, 6, 6, 7, 8, 9]
    assert words.begin[0, 1:].tolist() == [0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 11, 11]
    assert words.heads[0].nonzero()[:, 0].tolist() == [1, 3, 5, 6, 8]
    assert next_stop(text)[0].tolist() == [0, 4, 4, 4, 4, 9, 9, 9, 9, 9, 10]


@pytest.mark.parametrize("p", [0.15, 0.4])
def test_words_are_taken_in_random_order_while_they_fit(p: float) -> None:
    case = sample(rows(400, 48), p, vocab())
    marks = case.whole_words()
    for row, words in enumerate(case.words_of_row):
        wanted = samples.whole_words(words, draw_order(case, row), case.budget[row])
        assert set(marks[row].nonzero()[:, 0].tolist()) == wanted


def whole(inputs: Inputs, marks: torch.Tensor, known: VocabTensors) -> bool:
    """Whether every word is marked as a whole or not at all."""
    case = sample(inputs, 0.15, known)
    found = (marks[n, slice(*word)] for n, words in enumerate(case.words_of_row) for word in words)
    return all(word.all() or not word.any() for word in found)


@pytest.mark.parametrize("unit", ["word", "ngram(3)"])
@pytest.mark.parametrize("continues", [CONTINUES, 300])
def test_words_are_never_split(unit: str, continues: int) -> None:
    inputs, known = rows(200, 48), vocab(continues)
    assert whole(inputs, chosen(corrupted(f"mlm(unit={unit})", inputs, known)), known)


def test_every_word_is_equally_likely() -> None:
    inputs, known = rows(1, 24, full=True), vocab()
    many = Inputs(*(part.expand(5000, *part.shape[1:]).contiguous() for part in inputs))
    many = many._replace(example_ids=torch.arange(5000))
    marks = chosen(corrupted("mlm(unit=word, p=8%)", many, known)).sum(0)
    singles = [b for b, e in sample(inputs, 0.15, known).words_of_row[0] if e == b + 1]
    assert len(singles) > 5
    assert stats.chisquare(marks[singles].numpy()).pvalue > 1e-4
