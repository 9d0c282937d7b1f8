"""Batches of running text: each row continues where it ended a step before."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.batches.batch import RawBatch, empty_batch
from bertc.data.batches.endless import Endless, endless
from bertc.data.batches.running_rows import RunningRows
from bertc.data.vocab.vocabulary import Vocabulary

Texts = tuple[NDArray[Any], ...]
"""Token ids of each source, documents and separators end to end."""


@dataclass(eq=False)
class RunningData(RunningRows[NDArray[Any]]):
    """Training and held-out batches of a stage; batch k is a function of k alone.

    The sources end to end are one text. Row r of a batch begins at the r-th part and continues
    from step to step, from the end of the text to its beginning: each pass reads all of it, and
    every row follows on what it read before. Of a source of less weight a pass reads a part, and
    the next pass the part after it. Of held-out text that is read whole every token of a language
    but its first is predicted exactly once.
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

    @cached_property
    def _text(self) -> Endless:
        return endless(self.train_texts, self.weights)

    @property
    def advance(self) -> int:
        """A row, whole."""
        return self.seq

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of ``steps`` steps from ``step`` on, or ``rows`` of each."""
        row_b = np.arange(self.batch)[rows or slice(None)]
        begins_b = row_b * self.tokens // self.batch
        moved_k = np.arange(step, step + steps) * self.seq
        starts_b = (moved_k[:, None] + begins_b).reshape(-1)
        passes, within = np.divmod(starts_b, self.tokens)
        copies = passes % self.static_copies if self.static_copies else passes
        read_bs = self._text.read(starts_b[:, None] + np.arange(self.seq + 1))
        batch = self._rows(read_bs, within, np.full(len(starts_b), self.seq))
        batch.copies[:] = copies
        batch.languages[:] = np.array(self.languages)[self._text.sources(starts_b)][:, None]
        return batch

    def _size(self, text: NDArray[Any]) -> int:
        return len(text)

    def _batches_of(self, tokens: int, batch: int) -> int:
        return -(-_lane(tokens, batch) // self.seq)

    def _read_out(self, texts: Texts, batch: int, language: int) -> Iterator[RawBatch]:
        text = endless(texts, (1.0,) * len(texts))
        total = text.tokens
        part = _lane(total, batch)
        begins_b = np.arange(batch) * part
        own_b = np.clip(total - 1 - begins_b, 0, part)
        lane_s = np.arange(self.seq + 1)
        for start in range(0, part, self.seq):
            starts_b = (begins_b + start) % total
            read_bs = text.read(starts_b[:, None] + lane_s)
            yield self._rows(read_bs, starts_b, np.clip(own_b - start, 0, self.seq))

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


def _lane(tokens: int, batch: int) -> int:
    """Tokens of a text that each row predicts; its first token is never predicted."""
    return -(-(tokens - 1) // batch)
