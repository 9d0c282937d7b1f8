"""The batches of a stage that reads text as it runs on, row by row, step after step."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.batch import RawBatch, empty_batch
from bertc.data.vocabulary import Vocabulary

Texts = tuple[NDArray[Any], ...]
"""The token ids of each source, documents and their separators one after another."""


@dataclass(eq=False)
class RunningData:
    """Training and held-out batches of one stage; batch k is a function of k alone.

    The sources laid end to end are one text. Row r of a batch begins at the r-th part of it and
    reads on from step to step, over the end of the text into its beginning: so each pass over the
    text reads all of it, and no row is ever torn from what it read before. Of a source of less
    weight a pass reads a part, and the next pass the part after it.
    """

    vocabulary: Vocabulary
    batch: int
    seq: int
    train_texts: Texts
    heldout_texts: Texts
    languages: tuple[int, ...]
    weights: tuple[float, ...]
    static_copies: int = 0
    lost: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of one pass."""
        return sum(self._quotas())

    @property
    def examples(self) -> int:
        """Rows of one pass, begun ones too."""
        return -(-self.tokens // self.seq)

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of a step of this stage, of several from there on, or some rows of each."""
        row_b = np.arange(self.batch)[rows or slice(None)]
        begins_b = row_b * self.tokens // self.batch
        moved_k = np.arange(step, step + steps) * self.seq
        starts_b = (moved_k[:, None] + begins_b).reshape(-1)
        passes, within = np.divmod(starts_b, self.tokens)
        copies = passes % self.static_copies if self.static_copies else passes
        sources = np.searchsorted(np.cumsum(self._quotas()), within, side="right")
        batch = self._rows(self._read_on(starts_b), within, np.full(len(starts_b), self.seq))
        batch.copies[:] = copies
        batch.languages[:] = np.array(self.languages)[sources][:, None]
        return batch

    def heldout(self, batch: int, examples: int) -> Iterator[RawBatch]:
        """Batches of ``batch`` rows, each of which reads on in its part of the held-out text.

        About ``examples`` rows in all, of each language its share, but at least one batch. If they
        are enough for all of it, every token of a language but its first is told exactly once.
        """
        whole = sum(map(len, self.heldout_texts))
        for language in dict.fromkeys(self.languages):
            own = zip(self.languages, self.heldout_texts, strict=True)
            texts = tuple(text for other, text in own if other == language)
            share = examples * sum(map(len, texts)) / whole
            for rows in islice(self._read_out(texts, batch), max(1, math.ceil(share / batch))):
                rows.languages[:] = language
                yield rows

    def _read_out(self, texts: Texts, batch: int) -> Iterator[RawBatch]:
        total = sum(map(len, texts))
        part = -(-(total - 1) // batch)
        begins_b = np.arange(batch) * part
        own_b = np.clip(total - 1 - begins_b, 0, part)
        lane_s = np.arange(self.seq + 1)
        for start in range(0, part, self.seq):
            starts_b = (begins_b + start) % total
            read_bs = _look_up(texts, (starts_b[:, None] + lane_s) % total)
            yield self._rows(read_bs, starts_b, np.clip(own_b - start, 0, self.seq))

    def _quotas(self) -> list[int]:
        """Tokens that one pass takes from each source."""
        largest = max(self.weights)
        return [
            max(1, round(len(text) * weight / largest))
            for text, weight in zip(self.train_texts, self.weights, strict=True)
        ]

    def _read_on(self, starts_b: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens (b, s + 1) from some places of the endless text on."""
        quotas = np.array(self._quotas())
        places_bs = starts_b[:, None] + np.arange(self.seq + 1)
        passes_bs, within_bs = np.divmod(places_bs, quotas.sum())
        if len(quotas) == 1:
            return self.train_texts[0].take(within_bs).astype(np.int64)
        ends = np.cumsum(quotas)
        source_bs = np.searchsorted(ends, within_bs, side="right")
        at_bs = within_bs - (ends - quotas)[source_bs] + passes_bs * quotas[source_bs]
        found_bs = np.empty_like(places_bs)
        for number, text in enumerate(self.train_texts):
            mine = source_bs == number
            found_bs[mine] = text.take(at_bs[mine], mode="wrap")
        return found_bs

    def _rows(
        self,
        read_bs: NDArray[np.int64],
        places_b: NDArray[np.int64],
        lengths_b: NDArray[np.int64],
    ) -> RawBatch:
        batch = empty_batch(len(read_bs), self.seq, 1, self.vocabulary.pad)
        batch.token_ids[:], batch.following[:] = read_bs[:, :-1], read_bs[:, -1]
        batch.example_ids[:], batch.lengths[:], batch.starts[:] = places_b, lengths_b, 0
        return batch


def _look_up(texts: Texts, places_bs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The tokens at some places of texts laid end to end."""
    ends = np.cumsum([len(text) for text in texts])
    source_bs = np.searchsorted(ends, places_bs, side="right")
    found_bs = np.empty_like(places_bs)
    for number, text in enumerate(texts):
        mine = source_bs == number
        found_bs[mine] = text[places_bs[mine] - (ends[number] - len(text))]
    return found_bs
