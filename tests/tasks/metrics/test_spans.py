"""Spans beside a search through all pairs of tokens, one at a time."""

import json
import math
from itertools import product

import numpy as np
import pytest

from bertc.tasks.layouts.example import TaggedExample
from bertc.tasks.metrics import spans
from bertc.tasks.metrics.calibration import NO_FIT

Scored = dict[str, float]
PASSAGE = "the cat sat on the mat and the dog sat on the log with a cat"


def offsets_of(passage):
    """Where each word is, as an answer's tokens."""
    found, at = [], 0
    for word in passage.split():
        at = passage.index(word, at)
        found.append((at, at + len(word)))
        at += len(word)
    return found


def windows_of(words, size, stride, before):
    """Rows of a first token, a question and a part of the passage, of different lengths."""
    rows = []
    for number, first in enumerate(range(0, len(words), stride)):
        part = words[first : first + size]
        ends = [(-1, -1)] * (1 + number % 3)
        rows.append(spans.Window(first, np.array([(-1, -1)] * before + part + ends)))
        if first + size >= len(words):
            break
    return rows


def drawn_windows(seed, least):
    """Windows of ``least`` words or more, after the tokens before and both limits of answers."""
    rng = np.random.default_rng(seed)
    before, longest, best = (int(rng.integers(1, most)) for most in (4, 9, 9))
    windows = windows_of(offsets_of(PASSAGE), *rng.integers(least, 20, 2).tolist(), before)
    return rng, before, longest, best, windows


def owners(windows):
    """The window in which each word of the passage has the most context."""
    owner: dict[int, tuple[float, int]] = {}
    for number, window in enumerate(windows):
        size = sum(begin >= 0 for begin, _ in window.offsets)
        for rank in range(size):
            context = min(rank, size - 1 - rank) + 0.01 * size
            word = window.first_token + rank
            if word not in owner or context > owner[word][0]:
                owner[word] = (context, number)
    return {word: number for word, (_, number) in owner.items()}


def allowed(windows, before, longest):
    """Every window, first and last token that may be an answer."""
    owner = owners(windows)
    return [
        (number, first, last)
        for number, window in enumerate(windows)
        for first, last in product(range(len(window.offsets)), repeat=2)
        if window.offsets[first][0] >= 0
        and window.offsets[last][0] >= 0
        and first <= last < first + longest
        and owner[window.first_token + first - before] == number
    ]


def best_of(windows, scored, best):
    """The texts that score most, each once."""
    texts: Scored = {}
    for (number, first, last), score in scored.items():
        begin, end = windows[number].offsets[first][0], windows[number].offsets[last][1]
        text = PASSAGE[begin:end]
        texts[text] = max(score, texts.get(text, -math.inf))
    return dict(sorted(texts.items(), key=lambda pair: -pair[1])[:best])


def assert_same(decoded, expected):
    assert [one.text for one in decoded.best] == list(expected)
    assert [one.score for one in decoded.best] == pytest.approx(list(expected.values()))
    weights = np.exp(np.array(list(expected.values())))
    assert [one.probability for one in decoded.best] == pytest.approx(weights / weights.sum())


@pytest.mark.parametrize("seed", range(30))
def test_plain_is_the_best_of_all_pairs(seed):
    rng, before, longest, best, windows = drawn_windows(seed, 1)
    starts, ends = (
        [rng.normal(size=len(w.offsets)).astype(np.float32) for w in windows] for _ in range(2)
    )
    scores = {
        (w, first, last): float(starts[w][first]) + float(ends[w][last])
        for w, first, last in allowed(windows, before, longest)
    }
    expected = best_of(windows, scores, best)
    likeliest = next(iter(expected))
    null = min(float(start[0]) + float(end[0]) for start, end in zip(starts, ends, strict=True))

    def decoded(unanswerable, threshold):
        return spans.decode_plain(
            PASSAGE, windows, starts, ends,
            best=best, longest=longest, unanswerable=unanswerable, threshold=threshold,
        )  # fmt: skip

    always = decoded(unanswerable=False, threshold=-9.0)
    assert (always.text, always.likeliest, always.odds) == (likeliest, likeliest, None)
    assert_same(always, expected)
    odds = null - expected[likeliest]
    perhaps = decoded(unanswerable=True, threshold=odds + 1e-9)
    assert (perhaps.text, perhaps.odds) == (likeliest, pytest.approx(odds))
    assert_same(perhaps, dict(sorted([*expected.items(), ("", null)], key=lambda one: -one[1])))
    never = decoded(unanswerable=True, threshold=odds - 1e-9)
    assert (never.text, never.likeliest) == ("", likeliest)


@pytest.mark.parametrize("seed", range(30))
def test_conditioned_is_the_best_of_all_in_the_beam(seed):
    rng, before, longest, best, windows = drawn_windows(seed, 6)
    size = max(len(window.offsets) for window in windows) + 3  # rows are padded for a batch
    beam, ends = int(rng.integers(1, 6)), int(rng.integers(1, 6))

    def drawn(*rows, of):
        return rng.random((*rows, size)).argsort(axis=-1)[..., :of]

    start_at = drawn(len(windows), of=beam)
    end_at = drawn(len(windows), beam, of=ends)
    start, end = -rng.random(start_at.shape), -rng.random(end_at.shape)
    none = rng.normal(size=len(windows))
    possible = set(allowed(windows, before, longest))
    scores = {
        at: start[w, k] + end[w, k, e]
        for w, k, e in np.ndindex(end_at.shape)
        if (at := (w, int(start_at[w, k]), int(end_at[w, k, e]))) in possible
    }
    expected = best_of(windows, scores, best)
    likeliest = next(iter(expected), "")

    def decoded(none_w, threshold):
        return spans.decode_conditioned(
            PASSAGE, windows, start, start_at, end, end_at, none_w,
            best=best, longest=longest, threshold=threshold,
        )  # fmt: skip

    found = decoded(none, float(none.min()))
    assert (found.text, found.odds) == (likeliest, none.min())
    assert_same(found, expected)
    assert decoded(none, float(none.min()) - 1e-9).text == ""
    assert decoded(None, -9.0).text == likeliest


def plain(passage, offsets, scores, none=False):
    starts, ends = ([np.array(side)] for side in scores)
    return spans.decode_plain(
        passage, [spans.Window(0, np.array(offsets))], starts, ends,
        best=3, longest=30, unanswerable=none, threshold=0.0,
    )  # fmt: skip


def test_the_text_is_the_passages_own_and_a_window_without_text_has_no_answer():
    passage = "In 1999 (née  Smith’s) paid."
    found = plain(passage, [(-1, -1), (8, 12), (12, 22), (22, 28)], [[0, 2, 1, 0], [0, 1, 2, 0]])
    assert found.text == "(née  Smith’s)"
    # Some tokenisers count the space before a word in.
    assert plain(passage, [(-1, -1), (2, 7)], [[0, 1], [0, 1]]).text == "1999"
    nothing = [(-1, -1), (3, 3)]
    assert plain("abc def", nothing, [[1, 2], [1, 2]]) == spans.Decoded("", "", None, ())
    perhaps = plain("abc def", nothing, [[1, 2], [1, 2]], none=True)
    assert (perhaps.text, perhaps.odds) == ("", spans.NOWHERE)
    assert [(one.text, one.probability) for one in perhaps.best] == [("", 1.0)]
    assert json.dumps(perhaps.odds)
    # Equal scores go to the first.
    words = offsets_of(PASSAGE)
    found = plain(PASSAGE, [(-1, -1), *words], [[0.0] * (1 + len(words))] * 2)
    assert [one.text for one in found.best] == ["the", "the cat", "the cat sat"]


def test_spans_with_names_do_not_overlap_and_their_threshold_counts_missing_ones():
    likely_wnl = np.zeros((3, 2, 2))
    likely_wnl[0, 1, 1], likely_wnl[1, 0, 0], likely_wnl[2, 0, 0] = 0.6, 0.5, 0.3
    apart = spans.spans_apart(likely_wnl, ("x", "y"))
    assert apart == [("y", 0, 1, 0.6), ("x", 2, 2, 0.3)]
    words = ("a", "b", "c")
    examples = [TaggedExample("0", words, t) for t in (("B-y", "I-y", "B-x"), ("O", "B-x", "O"))]
    assert spans.named_threshold(examples, [apart, []]) == pytest.approx(0.15)
    assert spans.named_threshold(examples[1:], [apart]) == 0.5
    assert [*spans.named_tags(examples[:1], [apart], NO_FIT)] == [("B-y", "I-y", "O")]
