"""A corpus as a stream of text: what every kind of source gives to the rest of the room."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from bertc.ir.data import Corpus, Docstrings, Files, Hf, Parallel, Sentences

PIECE_BYTES = 1 << 20
"""Longer documents arrive in pieces of about this size, so that memory stays bounded."""


class Piece(NamedTuple):
    """Text of a document: all of it, or a part no longer than about ``PIECE_BYTES``.

    ``first`` starts a new document. ``amount`` is how much of the source has been read for it.
    What the document is held out with, if not its own text, is ``kin``: the pair it is of.
    """

    text: str
    first: bool
    amount: int
    kin: str = ""


class Text(NamedTuple):
    """What is read of a corpus: all of it, or of parallel text one side."""

    corpus: Corpus
    side: int | None = None

    @property
    def languages(self) -> tuple[str, str]:
        """Of the first and of the second text of a row."""
        known = self.corpus.languages
        one = known[self.side or 0]
        return (one, known[1]) if self.paired else (one, one)

    @property
    def paired(self) -> bool:
        """Whether each row is a sentence and its translation."""
        return isinstance(self.corpus, Parallel) and self.side is None


@dataclass(frozen=True)
class Source:
    """A corpus that was found and can be read, again and again with the same result.

    ``identity`` holds plain values that change when what would be read changes; ``total`` counts
    the ``unit`` ("bytes" or "rows") that the pieces' amounts add up to; ``text_bytes`` is a guess
    at the size of the text, and ``slow`` asks for a copy of it in the cache. ``paired`` documents
    are two sentences that belong together.
    """

    name: str
    identity: tuple[object, ...]
    sentences: Sentences
    total: int
    unit: str
    text_bytes: int
    read: Callable[[], Iterator[Piece]]
    slow: bool = False
    paired: bool = False


def open_source(corpus: Corpus, side: int | None = None) -> Source:
    """Find a corpus, or one side of a parallel one, without reading it.

    Raises:
        MissingInputError: a file, package or data set is not there.
        DataError: it is there and cannot be used.
    """
    match corpus:
        case Docstrings():
            from bertc.data.sources.docstrings import open_docstrings

            return open_docstrings(corpus)
        case Files():
            from bertc.data.sources.files import open_files

            return open_files(corpus)
        case Hf():
            from bertc.data.sources.hub import open_hf

            return open_hf(corpus)
        case Parallel():
            from bertc.data.sources.parallel import open_parallel

            return open_parallel(corpus, side)
    assert_never(corpus)


def whole(text: str, amount: int) -> Iterator[Piece]:
    """The pieces of a document held in memory; ``amount`` counts with the first."""
    first, start = True, 0
    while start < len(text) or first:
        end = _cut(text, start)
        yield Piece(text[start:end], first, amount if first else 0)
        first, start = False, end


def _cut(text: str, start: int) -> int:
    """Where to end a piece: after a blank line if there is one, else a line, else a word."""
    limit = start + PIECE_BYTES
    if limit >= len(text):
        return len(text)
    for mark in ("\n\n", "\n", " "):
        if (found := text.rfind(mark, start, limit)) > start:
            return found + len(mark)
    return limit
