"""Batches of running text: each row continues where it ended a step before.

Axes: b rows, s places of a row.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from bertc.text.batches.batch import RawBatch, empty_batch
from bertc.text.batches.order import ranges_of
from bertc.text.rows.tokens import Tokens
from bertc.text.vocab.vocabulary import Vocabulary

Texts = tuple[Tokens, ...]


@dataclass(frozen=True, eq=False)
class Endless:
    """An endless text; each pass takes ``quotas`` tokens of the sources and continues each."""

    texts: Texts
    quotas: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        """The number of tokens of one pass."""
        return int(self.quotas.sum())

    @property
    def ends(self) -> NDArray[np.int64]:
        """The end of each source in the first pass."""
        return np.cumsum(self.quotas)

    def sources(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The source at each place; places may be negative."""
        return self._within(places)[0]

    def read(self, places_bs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at places (b, s)."""
        if len(self.texts) == 1:
            return self.texts[0].ids.take(places_bs, mode="wrap").astype(np.int64)
        sources_bs, at_bs = self._within(places_bs)
        tokens_bs = np.empty_like(places_bs)
        for number, text in enumerate(self.texts):
            here_bs = sources_bs == number
            tokens_bs[here_bs] = text.ids.take(at_bs[here_bs], mode="wrap")
        return tokens_bs

    def begins(self, places_bs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True (b, s) where a sentence begins."""
        sources_bs, at_bs = self._within(places_bs)
        begins_bs = np.empty(places_bs.shape, dtype=np.bool_)
        for number, text in enumerate(self.texts):
            here_bs, starts = sources_bs == number, text.sentences
            places_n = at_bs[here_bs] % len(text.ids)
            begins_bs[here_bs] = starts[np.searchsorted(starts, places_n)] == places_n
        return begins_bs

    def _within(self, places_bs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source of each place, and the position in it, counted on over passes."""
        passes_bs, within_bs = np.divmod(places_bs, self.tokens)
        sources_bs, at_bs = ranges_of(within_bs, self.quotas)
        return sources_bs, np.asarray(at_bs + passes_bs * self.quotas[sources_bs], np.int64)


def endless(texts: Texts, weights: Sequence[float]) -> Endless:
    """An endless text whose pass reads texts of the largest weight once, of others a part."""
    shares = [weight / max(weights) for weight in weights]
    quotas = [max(1, round(len(t.ids) * share)) for t, share in zip(texts, shares, strict=True)]
    return Endless(texts, np.array(quotas, dtype=np.int64))


@dataclass(eq=False)
class RunningRows(ABC):
    """Training and held-out batches of a stage; batch k is a function of the seed and k.

    The sources end to end are one text. Row r of a batch begins at the r-th part and continues
    from step to step, from the end of the text to its beginning. Each source is in shards.
    """

    vocabulary: Vocabulary
    batch: int
    seq: int
    train_texts: tuple[Texts, ...]
    heldout_texts: tuple[Texts, ...]
    languages: tuple[int, ...]
    weights: tuple[float, ...]
    static_copies: int = 0
    lost: int = 0

    @cached_property
    def text(self) -> Endless:
        """The text of training."""
        counts = list(map(len, self.train_texts))
        return endless(tuple(chain(*self.train_texts)), np.repeat(self.weights, counts).tolist())

    @cached_property
    def languages_of_texts(self) -> NDArray[np.int64]:
        """The language of each text of ``text``."""
        return np.repeat(np.array(self.languages), list(map(len, self.train_texts)))

    @property
    @abstractmethod
    def advance(self) -> int:
        """Tokens by which a row moves on in a step."""

    @property
    def tokens(self) -> int:
        """The number of tokens of one pass."""
        return self.text.tokens

    @property
    def examples(self) -> int:
        """The number of rows of one pass, incomplete ones included."""
        return -(-self.tokens // self.advance)

    def heldout(self, sizes: range, examples: int) -> Iterator[RawBatch]:
        """About ``examples`` held-out rows in batches of the largest size; of each language one."""
        batch = sizes[-1]
        for language, texts, batches in self._heldout_parts(batch, examples):
            for rows in islice(self._read_out(texts, batch, language), batches):
                rows.languages[:] = language
                yield rows

    def heldout_rows(self, sizes: range, examples: int) -> int:
        """The number of rows that ``heldout`` yields."""
        batch = sizes[-1]
        parts = self._heldout_parts(batch, examples)
        return batch * sum(min(n, self._batches_of(_size(texts), batch)) for _, texts, n in parts)

    def _heldout_parts(self, batch: int, examples: int) -> Iterator[tuple[int, Texts, int]]:
        """Each language with its held-out texts and the number of batches to read."""
        total = sum(map(_size, self.heldout_texts))
        pairs = list(zip(self.languages, self.heldout_texts, strict=True))
        for language in dict.fromkeys(self.languages):
            texts = tuple(chain(*(texts for of_texts, texts in pairs if of_texts == language)))
            yield language, texts, max(1, math.ceil(examples * (_size(texts) / total) / batch))

    @abstractmethod
    def _batches_of(self, tokens: int, batch: int) -> int:
        """The number of batches that read a text of a length in tokens."""

    @abstractmethod
    def _read_out(self, texts: Texts, batch: int, language: int) -> Iterator[RawBatch]:
        """Batches that read some texts once, in order."""


def _size(texts: Texts) -> int:
    return sum(len(text.ids) for text in texts)


@dataclass(eq=False)
class RunningData(RunningRows):
    """Rows of running text alone; held-out tokens but the first are predicted exactly once."""

    @property
    def advance(self) -> int:
        return self.seq

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of ``steps`` steps from ``step`` on, or ``rows`` of each."""
        begins_b = np.arange(self.batch)[rows or slice(None)] * self.tokens // self.batch
        starts_b = ((np.arange(step, step + steps) * self.seq)[:, None] + begins_b).reshape(-1)
        passes, within = np.divmod(starts_b, self.tokens)
        read_bs = self.text.read(starts_b[:, None] + np.arange(self.seq + 1))
        batch = self._rows(read_bs, within, np.full(len(starts_b), self.seq))
        batch.copies[:] = passes % self.static_copies if self.static_copies else passes
        batch.languages[:] = self.languages_of_texts[self.text.sources(starts_b)][:, None]
        return batch

    def _batches_of(self, tokens: int, batch: int) -> int:
        return -(-_lane(tokens, batch) // self.seq)

    def _read_out(self, texts: Texts, batch: int, language: int) -> Iterator[RawBatch]:
        text = endless(texts, (1.0,) * len(texts))
        total = text.tokens
        part = _lane(total, batch)
        begins_b = np.arange(batch) * part
        predicted_b = np.clip(total - 1 - begins_b, 0, part)
        for start in range(0, part, self.seq):
            starts_b = (begins_b + start) % total
            read_bs = text.read(starts_b[:, None] + np.arange(self.seq + 1))
            yield self._rows(read_bs, starts_b, np.clip(predicted_b - start, 0, self.seq))

    def _rows(
        self, read_bs: NDArray[np.int64], places_b: NDArray[np.int64], lengths_b: NDArray[np.int64]
    ) -> RawBatch:
        batch = empty_batch(len(read_bs), self.seq, 1, self.vocabulary.pad)
        batch.token_ids[:], batch.following[:] = read_bs[:, :-1], read_bs[:, -1]
        batch.example_ids[:], batch.lengths[:], batch.starts[:] = places_b, lengths_b, 0
        return batch


def _lane(tokens: int, batch: int) -> int:
    """Tokens of a text that each row predicts; its first token is never predicted."""
    return -(-(tokens - 1) // batch)
