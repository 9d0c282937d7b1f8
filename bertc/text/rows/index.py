"""Row indices: the text or pair of each row by format, built once and memory-mapped."""

import itertools
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.ir import data
from bertc.ir.address import key
from bertc.ir.terms.node import Pairs
from bertc.text.rows.tokens import Offsets, Tokens

ROW = np.dtype(
    [("a", "<i8"), ("b", "<i8"), ("a_length", "<i4"), ("b_length", "<i4"), ("label", "u1")]
)
"""An entry of an index: starts and lengths of both texts, 0 without a second, the pair label.

Of a text that may begin later, minus ``b`` is by how many tokens at most.
"""
TRANSLATION = 2
"""The pair label of a sentence and its translation."""
BLOCK_ROWS = 1 << 16
ROWS_FILE = "rows"
TRIES = 10  # BERT create_pretraining_data.py: tries to find another document
Pair = tuple[int, int, int, int, int]
"""(a, b, a_length, b_length, label), the fields of ``ROW``."""


@dataclass
class Fitting:
    """Cuts texts to ``room`` tokens, each token from the front or the back with probability 1/2."""

    room: int
    rng: random.Random
    lost: int = 0
    """The number of tokens cut off so far."""

    def single(self, start: int, length: int) -> tuple[int, int]:
        """Start and length of one text, cut to fit."""
        over = length - self.room
        return self._shorter(start, length, over) if over > 0 else (start, length)

    def pair(self, a: tuple[int, int], b: tuple[int, int], label: int) -> Pair:
        """A pair cut to fit, token by token from the longer text; on ties from the second."""
        if a[1] + b[1] > self.room:
            from_a, from_b = map(int, overhangs(np.array(a[1]), np.array(b[1]), self.room))
            a, b = self._shorter(*a, from_a), self._shorter(*b, from_b)
        return a[0], b[0], a[1], b[1], label

    def _shorter(self, start: int, length: int, by: int) -> tuple[int, int]:
        self.lost += by
        return start + (self.rng.getrandbits(by).bit_count() if by else 0), length - by


def overhangs(a_n: Offsets, b_n: Offsets, room: int) -> tuple[Offsets, Offsets]:
    """Tokens to cut from pairs of texts, one by one from the longer; ties from b."""
    over_n = np.maximum(a_n + b_n - room, 0)
    from_a_n, from_b_n = np.clip(a_n - b_n, 0, over_n), np.clip(b_n - a_n, 0, over_n)
    equal_n = over_n - from_a_n - from_b_n
    return from_a_n + equal_n // 2, from_b_n + (equal_n + 1) // 2


@dataclass(frozen=True)
class Arrangement:
    """The settings of one copy of the data; ``paired`` rows are documents of two sentences."""

    format: data.Format
    pairs: Pairs
    seq: int
    seed: int
    copy: int
    paired: bool = False
    swapped: bool = False

    @property
    def drawn(self) -> bool:
        """True if rows are random, so that each copy has different ones."""
        if isinstance(self.format, data.SentencePair):
            return not self.paired and self.pairs in ("random-next", "swapped")
        return not self.paired and isinstance(self.format, data.SegmentPair | data.SingleSegment)


def write_rows(folder: Path, tokens: Tokens, how: Arrangement) -> dict[str, int]:
    """Write the index of all rows of a part; return counts of rows, tokens and tokens cut off."""
    rng = random.Random(key(how.seed, "rows", how.copy))
    fitting = Fitting(how.seq - 3 if how.format.kind in data.PAIRED else how.seq - 2, rng)
    count = tokens_in_rows = 0
    with (folder / ROWS_FILE).open("wb") as file:
        for block in _blocks(tokens, how, fitting):
            file.write(block.tobytes())
            count += len(block)
            tokens_in_rows += int(block["a_length"].sum()) + int(block["b_length"].sum())
    return {"rows": count, "tokens": tokens_in_rows, "lost": fitting.lost}


def _blocks(tokens: Tokens, how: Arrangement, fitting: Fitting) -> Iterator[NDArray[Any]]:
    if how.paired:
        for pairs in _translations(tokens, how.seq - 4, fitting):
            if how.swapped:
                second_first = pairs[["b", "b_length", "a", "a_length"]].copy()
                pairs[["a", "a_length", "b", "b_length"]] = second_first
            yield pairs
        return
    rows: Iterator[Pair] = iter(())
    match how.format:
        case data.FullSentences():
            yield from _full_sentences(tokens, fitting.room)
        case data.Blocks():
            yield from _even(tokens, fitting.room)
        case data.DocSentences(cut=cut) if cut:
            yield from _one_a_document(tokens, fitting, cut)
        case data.SegmentPair() | data.SentencePair() as form:
            rows = text_pairs(tokens, how.pairs, form, fitting)
        case data.SingleSegment(short=short):
            rows = _single_segments(tokens, short, fitting)
        case _:
            rows = _doc_sentences(tokens, fitting.room)
    while block := list(itertools.islice(rows, BLOCK_ROWS)):
        yield np.array(block, dtype=ROW)


def _translations(tokens: Tokens, room: int, fitting: Fitting) -> Iterator[NDArray[Any]]:
    """Rows of documents of a sentence and its translation, the longer one cut at its end."""
    for begin in range(0, len(tokens.documents) - 1, BLOCK_ROWS):
        firsts = np.array(tokens.documents[begin : begin + BLOCK_ROWS + 1])
        first = firsts[:-1][np.diff(firsts) == 2]
        block = np.zeros(len(first), dtype=ROW)
        block["a"], block["b"] = tokens.sentences[first], tokens.sentences[first + 1]
        a_length = block["b"] - block["a"]
        b_length = tokens.sentences[first + 2] - 1 - block["b"]  # the separator
        from_a, from_b = overhangs(a_length, b_length, room)
        block["a_length"], block["b_length"] = a_length - from_a, b_length - from_b
        block["label"] = TRANSLATION
        fitting.lost += int((from_a + from_b).sum())
        yield block


def _full_sentences(tokens: Tokens, room: int) -> Iterator[NDArray[Any]]:
    """Rows of as many whole sentences as fit, running across documents."""
    starts = ends = np.empty(0, dtype=np.int64)
    for more_starts, more_ends in tokens.pieces(room):
        starts, ends = np.append(starts, more_starts), np.append(ends, more_ends)
        beyond = np.searchsorted(ends, starts + room, side="right").tolist()
        firsts = [0]
        while (following := beyond[firsts[-1]]) < len(beyond):
            firsts.append(following)
        first = np.array(firsts)
        yield _running(starts[first[:-1]], ends[first[1:] - 1])
        starts, ends = starts[firsts[-1] :], ends[firsts[-1] :]
    yield _running(starts[:1], ends[-1:])


def _running(starts: Offsets, ends: Offsets) -> NDArray[Any]:
    block = np.zeros(len(starts), dtype=ROW)
    block["a"], block["a_length"] = starts, ends - starts
    return block


def _even(tokens: Tokens, room: int) -> Iterator[NDArray[Any]]:
    """Rows of ``room`` tokens across documents; the last overlaps, a short part is repeated."""
    total = len(tokens.ids) - 1  # a row ends with its own separator
    for start in range(0, max(total, 1), room * BLOCK_ROWS):
        starts = np.arange(start, min(total, start + room * BLOCK_ROWS), room)
        starts = np.minimum(starts, max(0, total - room))
        yield _running(starts, starts + room)


def _one_a_document(tokens: Tokens, fitting: Fitting, cut: data.Cut) -> Iterator[NDArray[Any]]:
    for begin in range(0, len(tokens.documents) - 1, BLOCK_ROWS):
        bounds = np.array(tokens.sentences[tokens.documents[begin : begin + BLOCK_ROWS + 1]])
        starts, ends = bounds[:-1], bounds[1:] - 1  # the separator
        beyond = np.maximum(ends - starts - fitting.room, 0)
        starts = starts + beyond * (cut == "end")
        block = _running(starts, np.minimum(ends, starts + fitting.room))
        if cut == "random":
            block["b"] = -beyond
        else:
            fitting.lost += int(beyond.sum())
        yield block


def _doc_sentences(tokens: Tokens, room: int) -> Iterator[Pair]:
    """Rows of as many whole sentences of one document as fit."""
    for _, bounds in tokens.bounds(room):
        start, last = 0, len(bounds) - 1
        while start < last:
            end = bisect_right(bounds, bounds[start] + room, start + 1) - 1
            yield bounds[start], 0, bounds[end] - bounds[start], 0, 0
            start = end


def _single_segments(tokens: Tokens, short: float, fitting: Fitting) -> Iterator[Pair]:
    """Rows of sentences of one document until full; the excess is cut from both ends."""
    rng, room = fitting.rng, fitting.room
    for _, bounds in tokens.bounds(room):
        target = rng.randint(2, room) if rng.random() < short else room
        start, last = 0, len(bounds) - 1
        while start < last:
            end = min(bisect_left(bounds, bounds[start] + target, start + 1), last)
            begins, length = fitting.single(bounds[start], bounds[end] - bounds[start])
            yield begins, 0, length, 0, 0
            start = end


def text_pairs(
    tokens: Tokens, pairs: Pairs, form: data.SegmentPair | data.SentencePair, fitting: Fitting
) -> Iterator[Pair]:
    """Two sentences, or a run up to a target length that is split in two at a random sentence."""
    rng, room = fitting.rng, fitting.room
    for document, bounds in tokens.bounds(room):
        start, last, target = 0, len(bounds) - 1, 1
        while start < last:
            middle, end = start + 1, min(start + 2, last)
            if isinstance(form, data.SegmentPair):
                if not start or form.short_per == "example":
                    target = rng.randint(2, room) if rng.random() < form.short else room
                end = min(bisect_left(bounds, bounds[start] + target, start + 1), last)
                middle = start + (rng.randint(1, end - start - 1) if end - start > 1 else 1)
            first = (bounds[start], bounds[middle] - bounds[start])
            follows = (bounds[middle], bounds[end] - bounds[middle])
            match _relation(pairs, end - start, rng):
                case "other":
                    random_text = _random_text(tokens, document, target - first[1], rng)
                    yield fitting.pair(first, random_text, 1)
                    end = middle
                case "swapped":
                    yield fitting.pair(follows, first, 1)
                case _:
                    yield fitting.pair(first, follows, 0)
            start = end


def _relation(pairs: Pairs, sentences: int, rng: random.Random) -> str:
    if pairs == "random-next":
        return "other" if sentences == 1 or rng.random() < 0.5 else "next"
    if pairs == "swapped":
        if sentences == 1:
            return "other"  # ALBERT's released code, with the label of a swap
        return "swapped" if rng.random() < 0.5 else "next"
    return "next"


def _random_text(tokens: Tokens, document: int, least: int, rng: random.Random) -> tuple[int, int]:
    """(start, length) of ``least`` tokens or more, if there are, of another document."""
    count = len(tokens.documents) - 1
    for _ in range(TRIES):
        if (chosen := rng.randrange(count)) != document:
            break
    first, last = int(tokens.documents[chosen]), int(tokens.documents[chosen + 1])
    sentence = rng.randrange(first, last)
    start = int(tokens.sentences[sentence])
    end = tokens.sentence_end(sentence, last)
    while end - start < least and sentence + 1 < last:
        sentence += 1
        end = tokens.sentence_end(sentence, last)
    return start, end - start
