"""A corpus as a stream of text: what every kind of source gives to the rest of the room."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from bertc.ir.data import Corpus, Docstrings, Files, Hf, Sentences

PIECE_BYTES = 1 << 20
"""Longer documents arrive in pieces of about this size, so that memory stays bounded."""


class Piece(NamedTuple):
    """Text of a document: all of it, or a part no longer than about ``PIECE_BYTES``.

    ``first`` starts a new document. ``amount`` is how much of the source has been read for it.
    """

    text: str
    first: bool
    amount: int


@dataclass(frozen=True)
class Source:
    """A corpus that was found and can be read, again and again with the same result.

    ``identity`` holds plain values that change when what would be read changes; ``total`` counts
    the ``unit`` ("bytes" or "rows") that the pieces' amounts add up to; ``text_bytes`` is a guess
    at the size of the text, and ``slow`` asks for a copy of it in the cache.
    """

    name: str
    identity: tuple[object, ...]
    sentences: Sentences
    total: int
    unit: str
    text_bytes: int
    read: Callable[[], Iterator[Piece]]
    slow: bool = False


def open_source(corpus: Corpus) -> Source:
    """Find a corpus, without reading it.

    Raises:
        MissingInputError: a file, package or data set is not there.
        DataError: it is there and cannot be used.
    """
    match corpus:
        case Docstrings():
            from bertc.data.docstrings import open_docstrings

            return open_docstrings(corpus)
        case Files():
            from bertc.data.files import open_files

            return open_files(corpus)
        case Hf():
            from bertc.data.hub import open_hf

            return open_hf(corpus)
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
