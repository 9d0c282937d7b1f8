"""Rows that go on from step to step through an endless text, whatever else they hold."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar

from bertc.data.batches.batch import RawBatch
from bertc.data.batches.endless import Endless, by_language

OneText = TypeVar("OneText")


class RunningRows(ABC, Generic[OneText]):
    """Held-out batches language by language, and what a pass of training holds."""

    heldout_texts: tuple[OneText, ...]
    languages: tuple[int, ...]

    @property
    @abstractmethod
    def _text(self) -> Endless:
        """The text of training."""

    @property
    @abstractmethod
    def advance(self) -> int:
        """Tokens by which a row moves on in a step."""

    @property
    def tokens(self) -> int:
        """The number of tokens of one pass."""
        return self._text.tokens

    @property
    def examples(self) -> int:
        """The number of rows of one pass, incomplete ones included."""
        return -(-self.tokens // self.advance)

    def heldout(self, batch: int, examples: int) -> Iterator[RawBatch]:
        """Held-out batches of ``batch`` rows, each continuing in its part of the text.

        About ``examples`` rows in all, each language its share, but at least one batch.
        """
        for language, texts, batches in self._heldout_parts(batch, examples):
            for rows in islice(self._read_out(texts, batch, language), batches):
                rows.languages[:] = language
                yield rows

    def heldout_rows(self, batch: int, examples: int) -> int:
        """The number of rows that ``heldout`` yields."""
        return batch * sum(
            min(batches, self._batches_of(sum(map(self._size, texts)), batch))
            for _, texts, batches in self._heldout_parts(batch, examples)
        )

    def _heldout_parts(
        self, batch: int, examples: int
    ) -> Iterator[tuple[int, tuple[OneText, ...], int]]:
        """Each language with its held-out texts and the number of batches to read."""
        sizes = tuple(map(self._size, self.heldout_texts))
        for language, members, share in by_language(self.languages, sizes):
            texts = tuple(self.heldout_texts[number] for number in members)
            yield language, texts, max(1, math.ceil(examples * share / batch))

    @abstractmethod
    def _size(self, text: OneText) -> int:
        """Tokens of a text."""

    @abstractmethod
    def _batches_of(self, tokens: int, batch: int) -> int:
        """The number of batches that read a text of a length in tokens."""

    @abstractmethod
    def _read_out(
        self, texts: tuple[OneText, ...], batch: int, language: int
    ) -> Iterator[RawBatch]:
        """Batches that read some texts once, in order."""
