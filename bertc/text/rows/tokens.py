"""A tokenised corpus on disk: token ids, and starts of sentences and documents.

The ids of a part are one array of documents, each followed by one separator.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "heldout")
TOKEN_FILES = ("ids", "sentences", "documents")
SENTENCES_AT_ONCE = 1 << 20
DType = type[np.uint16] | type[np.uint32]
Ids = NDArray[np.uint16] | NDArray[np.uint32]
Offsets = NDArray[np.int64]


def token_dtype(size: int) -> DType:
    """The smallest dtype for ids below ``size``."""
    return np.uint16 if size <= 1 << 16 else np.uint32


@dataclass(frozen=True, eq=False)
class Tokens:
    """A memory-mapped part of a corpus.

    Sentence i starts at sentences[i] and ends where the next one starts, less the separator at the
    end of a document; document d holds the sentences documents[d] up to documents[d + 1]. Both
    arrays have one entry more than there are.
    """

    ids: Ids
    sentences: Offsets
    documents: Offsets

    @property
    def count(self) -> int:
        """The number of tokens, separators excluded."""
        return len(self.ids) - (len(self.documents) - 1)

    def bounds(self, longest: int) -> Iterator[tuple[int, list[int]]]:
        """Pairs (document, starts of its sentences, cut to ``longest``, and the last end)."""
        for document in range(len(self.documents) - 1):
            first, last = int(self.documents[document]), int(self.documents[document + 1])
            for start in range(first, last, SENTENCES_AT_ONCE):
                end = min(last, start + SENTENCES_AT_ONCE)
                bounds = np.array(self.sentences[start : end + 1])
                bounds[-1] -= end == last  # the separator
                yield document, _cut(bounds, longest)

    def pieces(self, longest: int) -> Iterator[tuple[Offsets, Offsets]]:
        """Starts and ends of the sentences of all documents, cut to ``longest``, in blocks."""
        for first in range(0, len(self.sentences) - 1, SENTENCES_AT_ONCE):
            bounds = np.array(self.sentences[first : first + SENTENCES_AT_ONCE + 1])
            starts, ends = bounds[:-1], bounds[1:].copy()
            reached = np.searchsorted(self.documents, [first, first + len(starts)], side="right")
            last = self.documents[slice(*reached)] - 1 - first  # sentences of their documents
            ends[last] -= 1  # the separator
            parts = -(-(ends - starts) // longest)
            nth = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
            starts = np.repeat(starts, parts) + nth * longest
            yield starts, np.minimum(starts + longest, np.repeat(ends, parts))

    def sentence_end(self, sentence: int, last: int) -> int:
        """The end of a sentence, given the first sentence after its document."""
        return int(self.sentences[sentence + 1]) - (sentence + 1 == last)


def _cut(bounds: Offsets, longest: int) -> list[int]:
    lengths = np.diff(bounds)
    if lengths.max() <= longest:
        return [int(bound) for bound in bounds.tolist()]
    cuts = [
        np.arange(start, start + length, longest)
        for start, length in zip(bounds[:-1].tolist(), lengths.tolist(), strict=True)
    ]
    return [*np.concatenate(cuts).tolist(), int(bounds[-1])]


def open_tokens(folder: Path, part: str, dtype: DType) -> Tokens:
    """Map the files of a part; an empty one gives empty arrays."""
    kinds = zip(TOKEN_FILES, (dtype, np.int64, np.int64), strict=True)
    return Tokens(*(mapped(folder / f"{part}.{name}", kind) for name, kind in kinds))


def mapped(path: Path, dtype: Any) -> NDArray[Any]:
    """The file as a read-only array, without the overhead of numpy.memmap."""
    if not path.stat().st_size:
        return np.empty(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


class TokenWriter:
    """Writer of one part, sentence by sentence; documents without sentences are skipped."""

    def __init__(self, folder: Path, part: str, dtype: DType, separator: int) -> None:
        files = [(folder / f"{part}.{name}").open("wb") for name in TOKEN_FILES]
        self._ids, self._sentences, self._documents = files
        self._dtype, self._separator = dtype, separator
        self._inside = self._begun = False
        self.tokens = self.sentences = self.documents = 0
        self._start = 0, 0, 0

    def begin(self) -> None:
        """Start a document; ends the one before with a separator."""
        if self._inside:
            self._put(np.array([self._separator]))
        self._inside, self._begun = False, True
        self._start = self.tokens, self.sentences, self.documents

    @property
    def tokens_of_document(self) -> int:
        """Tokens of the document that was started last."""
        return self.tokens - self._start[0]

    def take_back(self) -> None:
        """Remove the document that was started last."""
        self.tokens, self.sentences, self.documents = self._start
        sizes = self.tokens * np.dtype(self._dtype).itemsize, self.sentences * 8, self.documents * 8
        for file, size in zip((self._ids, self._sentences, self._documents), sizes, strict=True):
            file.seek(size)
            file.truncate()
        self._inside = self._begun = False

    def add(self, ids: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        """Add sentences: their ids end to end, and their lengths, none 0."""
        if not len(lengths):
            return
        if self._begun:
            _write(self._documents, np.array([self.sentences]))
            self.documents += 1
        self._inside, self._begun = True, False
        _write(self._sentences, self.tokens + np.cumsum(lengths) - lengths)
        self.sentences += len(lengths)
        self._put(ids)

    def close(self) -> None:
        """End the last document and write the closing offsets."""
        self.begin()
        _write(self._sentences, np.array([self.tokens]))
        _write(self._documents, np.array([self.sentences]))
        self.abandon()

    def abandon(self) -> None:
        """Close the files without finishing them."""
        for file in (self._ids, self._sentences, self._documents):
            file.close()

    def _put(self, ids: NDArray[Any]) -> None:
        self._ids.write(ids.astype(self._dtype, copy=False).tobytes())
        self.tokens += len(ids)


def _write(file: BinaryIO, offsets: NDArray[np.int64]) -> None:
    file.write(offsets.astype(np.int64, copy=False).tobytes())
