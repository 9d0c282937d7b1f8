"""Rows of two texts, as in create_pretraining_data.py of BERT and ALBERT."""

import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertc.ir.data import SegmentPair, SentencePair
from bertc.ir.terms.node import Pairs
from bertc.text.rows.tokens import Tokens

TRIES = 10  # BERT create_pretraining_data.py: tries to find another document

Pair = tuple[int, int, int, int, int]
"""(a, b, a_length, b_length, label), the fields of ``text.rows.index.ROW``."""


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
            from_a, from_b = overhang(a[1], b[1], self.room)
            a, b = self._shorter(*a, from_a), self._shorter(*b, from_b)
        return a[0], b[0], a[1], b[1], label

    def _shorter(self, start: int, length: int, by: int) -> tuple[int, int]:
        self.lost += by
        return start + (self.rng.getrandbits(by).bit_count() if by else 0), length - by


def overhang(a: int, b: int, room: int) -> tuple[int, int]:
    """Tokens to cut from texts of ``a`` and ``b``, one by one from the longer; ties from b."""
    over = max(a + b - room, 0)
    from_a, from_b = min(max(a - b, 0), over), min(max(b - a, 0), over)
    equal = over - from_a - from_b
    return from_a + equal // 2, from_b + (equal + 1) // 2


def overhangs(
    a_n: NDArray[np.int64], b_n: NDArray[np.int64], room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same of many pairs of texts."""
    over_n = np.maximum(a_n + b_n - room, 0)
    from_a_n, from_b_n = np.clip(a_n - b_n, 0, over_n), np.clip(b_n - a_n, 0, over_n)
    equal_n = over_n - from_a_n - from_b_n
    return from_a_n + equal_n // 2, from_b_n + (equal_n + 1) // 2


def text_pairs(
    tokens: Tokens, pairs: Pairs, form: SegmentPair | SentencePair, fitting: Fitting
) -> Iterator[Pair]:
    """Two sentences, or a run up to a target length that is split in two at a random sentence."""
    rng, room = fitting.rng, fitting.room
    for document, bounds in tokens.bounds(room):
        start, last, target = 0, len(bounds) - 1, 1
        while start < last:
            middle, end = start + 1, min(start + 2, last)
            if isinstance(form, SegmentPair):
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
