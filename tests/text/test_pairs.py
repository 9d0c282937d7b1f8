"""Rows of two texts keep BERT's and ALBERT's rules, rows of one SpanBERT's and RoBERTa's."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from bertc.ir import data
from bertc.ir.data import Blocks, DocSentences, FullSentences, SegmentPair, SentencePair
from bertc.text.rows.index import Arrangement, Fitting, Pair, _blocks, text_pairs
from bertc.text.rows.tokens import Tokens

SEPARATOR = 0


def corpus(documents: int = 40, longest: int = 30, seed: int = 1) -> Tokens:
    """Documents of 1 to 25 sentences; every token is a number of its own, separators are 0."""
    rng = random.Random(seed)
    ids: list[int] = []
    sentences, starts = [], []
    for _ in range(documents):
        starts.append(len(sentences))
        for _ in range(rng.randint(1, 25)):
            sentences.append(len(ids))
            length = rng.randint(1, longest)
            ids += range(len(ids) + 1, len(ids) + 1 + length)
        ids.append(SEPARATOR)
    return Tokens(
        np.array(ids, dtype=np.uint32),
        np.array([*sentences, len(ids)], dtype=np.int64),
        np.array([*starts, len(sentences)], dtype=np.int64),
    )


def document_of(tokens: Tokens, position: int) -> int:
    sentence = int(np.searchsorted(tokens.sentences, position, side="right")) - 1
    return int(np.searchsorted(tokens.documents, sentence, side="right")) - 1


def rows(tokens: Tokens, form: data.Format, pairs: str, seq: int, seed: int = 0) -> list[Pair]:
    how = Arrangement(form, pairs, seq, seed, 0)  # type: ignore[arg-type]
    room = seq - 3 if form.kind in ("segment-pair", "sentence-pair") else seq - 2
    fitting = Fitting(room, random.Random(seed))
    return [tuple(row) for block in _blocks(tokens, how, fitting) for row in block.tolist()]


def texts(tokens: Tokens, row: Pair) -> tuple[list[int], list[int]]:
    a, b, a_length, b_length, _ = row
    return tokens.ids[a : a + a_length].tolist(), tokens.ids[b : b + b_length].tolist()


@pytest.mark.parametrize("form", [SegmentPair(short=0.3), SentencePair()])
@pytest.mark.parametrize("pairs", ["consecutive", "random-next", "swapped"])
def test_texts_fit_and_stay_in_a_document(form: data.Format, pairs: str) -> None:
    tokens = corpus()
    for row in rows(tokens, form, pairs, 32):
        a, b = texts(tokens, row)
        assert len(a) >= 1
        assert len(a) + len(b) <= 29
        assert b or pairs == "consecutive"
        for start, text in ((row[0], a), (row[1], b)):
            assert SEPARATOR not in text
            if text:
                assert document_of(tokens, start) == document_of(tokens, start + len(text) - 1)


@pytest.mark.parametrize("pairs", ["random-next", "swapped"])
def test_labels_say_which_texts_follow_but_for_lone_sentences(pairs: str) -> None:
    tokens = corpus()
    made = rows(tokens, SegmentPair(), pairs, 32)
    labels = []
    for a, b, a_length, b_length, label in made:
        same = document_of(tokens, a) == document_of(tokens, b)
        assert same or label == 1
        if same:
            assert label == 0 or pairs == "swapped"
            first, second, length = (b, a, b_length) if label else (a, b, a_length)
            assert second >= first + length
        labels += [label] if same or pairs == "random-next" else []
    assert abs(np.mean(labels) - (0.5 if pairs == "swapped" else 0.625)) < 0.125


def test_consecutive_pairs_read_every_token_once_but_for_the_cuts() -> None:
    tokens = corpus(longest=60)
    fitting = Fitting(29, random.Random(0))
    made = [*text_pairs(tokens, "consecutive", SegmentPair(), fitting)]
    read = [t for row in made for text in texts(tokens, row) for t in text]
    assert len(read) == len(set(read)) == tokens.count - fitting.lost


def test_sentences_that_a_random_text_replaced_come_again() -> None:
    tokens, fitting = corpus(longest=8), Fitting(61, random.Random(3))
    read: set[int] = set()
    for row in text_pairs(tokens, "random-next", SegmentPair(short=0), fitting):
        first, second = texts(tokens, row)
        read |= {*first, *(() if row[4] else second)}
    assert len(read) > 0.9 * tokens.count


def test_a_short_target_is_one_document_or_one_example() -> None:
    """A short document has many rows, so that more than half of all rows are short."""
    tokens, shares, differ = corpus(documents=300, longest=6), [], []
    for form in (SegmentPair(short=0.5, short_per=per) for per in ("document", "example")):
        made = rows(tokens, form, "consecutive", 64)
        groups = itertools.groupby(made, lambda row: document_of(tokens, row[0]))
        # The last row of a document is what is left of it.
        short = [[row[2] + row[3] < 30 for row in [*group][:-1]] for _, group in groups]
        shares.append(np.mean([*itertools.chain(*short)]))
        differ.append({0 < sum(below) < len(below) for below in short})
    assert differ == [{False}, {False, True}]
    assert shares[1] < shares[0] - 0.1


def test_cuts_take_both_ends_of_the_longer_text() -> None:
    fitting = Fitting(20, random.Random(0))
    fronts = []
    for _ in range(2000):
        a, b, a_length, b_length, _ = fitting.pair((100, 30), (500, 6), 0)
        assert (a_length, b, b_length) == (14, 500, 6)
        fronts.append(a - 100)
    assert abs(np.mean(fronts) - 8) < 0.2
    assert abs(np.var(fronts) - 4) < 0.5
    for a_n, b_n in ((15, 15), (15, 16), (11, 10), (10, 11), (12, 11)):
        assert fitting.pair((0, a_n), (40, b_n), 0)[2:4] == (10, 10)


def test_sentence_pairs_are_single_sentences() -> None:
    tokens = corpus(longest=10)
    bounds = set(tokens.sentences.tolist())
    for row in text_pairs(tokens, "random-next", SentencePair(), Fitting(29, random.Random(0))):
        assert row[0] in bounds
        assert row[1] in bounds
        for start, length in ((row[0], row[2]), (row[1], row[3])):
            assert {start + length, start + length + 1} & bounds


def runs(tokens: Tokens, form: data.Format, seq: int) -> Iterator[list[int]]:
    for row in rows(tokens, form, "none", seq):
        assert row[3:] == (0, 0)
        yield texts(tokens, row)[0]


@pytest.mark.parametrize("at_once", [40, 1 << 20])
def test_full_sentences_are_as_many_whole_ones_as_fit(monkeypatch, at_once):
    monkeypatch.setattr("bertc.text.rows.tokens.SENTENCES_AT_ONCE", at_once)
    tokens = corpus()
    whole = (itertools.pairwise(bounds) for _, bounds in tokens.bounds(30))
    wanted: list[list[int]] = []
    for start, end in itertools.chain(*whole):
        if not wanted or end - wanted[-1][0] > 30:
            wanted.append([start, end])
        wanted[-1][1] = end
    found = [[a, a + length] for a, _, length, *_ in rows(tokens, FullSentences(), "none", 32)]
    assert found == wanted
    assert any(SEPARATOR in row for row in runs(tokens, FullSentences(), 32))


def test_full_sentences_cut_those_longer_than_a_row_and_lose_nothing() -> None:
    tokens = corpus(longest=80)
    made = list(runs(tokens, FullSentences(), 32))
    assert max(map(len, made)) == 30
    read = [t for row in made for t in row if t != SEPARATOR]
    assert read == [t for t in tokens.ids.tolist() if t != SEPARATOR]


def test_doc_sentences_are_whole_and_lose_nothing() -> None:
    tokens = corpus(longest=80)
    made = list(runs(tokens, DocSentences(), 32))
    assert max(map(len, made)) <= 30
    assert sorted(t for row in made for t in row) == sorted(t for t in tokens.ids.tolist() if t)
    ends = {end for document, bounds in tokens.bounds(30) for end in bounds[1:]}
    assert all(row[-1] in ends for row in made)


def test_rows_of_cut_documents_are_their_beginnings() -> None:
    tokens = corpus(longest=80)
    fitting = Fitting(30, random.Random(0))
    (block,) = _blocks(tokens, Arrangement(DocSentences(cut=True), "none", 32, 0, 0), fitting)
    begins = tokens.sentences[tokens.documents[:-1]]
    sizes = tokens.sentences[tokens.documents[1:]] - 1 - begins
    assert (block["a"] == begins).all()
    assert (block["a_length"] == np.minimum(sizes, 30)).all()
    assert fitting.lost == np.maximum(sizes - 30, 0).sum()


def test_blocks_fill_every_row_and_single_segments_are_runs_of_one_document() -> None:
    tokens = corpus()
    made = list(runs(tokens, Blocks(), 32))
    assert {len(row) for row in made} == {30}
    assert {t for row in made for t in row} == set(tokens.ids.tolist())
    assert any(SEPARATOR in row for row in made)
    made = list(runs(tokens, data.SingleSegment(), 32))
    for row in made:
        assert len(row) <= 30
        assert SEPARATOR not in row
        assert row == list(range(row[0], row[0] + len(row)))
    assert np.mean([len(row) == 30 for row in made]) > 0.5
