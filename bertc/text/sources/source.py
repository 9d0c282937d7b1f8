"""A corpus as a stream of text: the interface of all kinds of sources, files, sentences."""

import codecs
import contextlib
import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeGuard, TypeVar, cast

import sentencex

from bertc.base.diagnostics import DataError, MissingColumnError, refuse_all
from bertc.base.storage.encodings import not_utf8, refuse_utf_16
from bertc.base.storage.files import AnyFile, open_anywhere, size_of
from bertc.base.storage.paths import is_folder
from bertc.ir.data import Corpus, Parallel, Sentences
from bertc.text.sources.cells import ITEM_END

PIECE_BYTES = 1 << 20
"""Size of the pieces of longer documents, so that memory stays bounded."""
ItemT = TypeVar("ItemT")
_LINE_END = re.compile(r"\r\n?|\x0b|\x0c|\x85|\u2028")
_LINE_ENDS = "\r\x0b\x0c\x85\u2028"
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n|\u2029")
DOCUMENT_END = re.compile(rb"\n[ \t\r]*\n")
"""A blank line, where a document of a text file may end."""
LARGEST_LINE_BYTES = 256 * 2**20


class Piece(NamedTuple):
    """A document, or a piece of it of about ``PIECE_BYTES``.

    ``first``: the piece starts a document. ``amount``: units of the source read for it. ``kin``:
    the text whose hash decides whether it is held out, if not its own (the pair of a side).
    """

    text: str
    first: bool
    amount: int
    kin: str = ""


class CorpusText(NamedTuple):
    """The text to read from a corpus: all of it, or one side of parallel text."""

    corpus: Corpus
    side: int | None = None

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of the first and the second text of a row."""
        names = self.corpus.languages
        name = names[self.side or 0]
        return (name, names[1]) if self.paired else (name, name)

    @property
    def paired(self) -> bool:
        """True if each row is a sentence and its translation."""
        return isinstance(self.corpus, Parallel) and self.side is None


@dataclass(frozen=True)
class TextSource:
    """An opened corpus, which can be read repeatedly with the same result.

    ``identity`` has values that change with the content; ``total`` is the sum of the pieces'
    amounts in ``unit`` ("bytes" or "rows"); ``text_bytes`` is an estimate of the size of the text;
    the text of a ``slow`` source is copied to the cache. ``paired`` documents are a sentence and
    its translation, those of ``ids`` token ids, which ``read(below=size)`` checks. ``parts`` of
    much text are read and tokenised one by one. ``remarks`` say what is wrong with the beginnings
    of its files, though they can be read.
    """

    name: str
    identity: tuple[object, ...]
    sentences: Sentences
    total: int
    unit: str
    text_bytes: int
    read: Callable[..., Iterator[Piece]]
    slow: bool = False
    paired: bool = False
    ids: bool = False
    parts: tuple["TextSource", ...] = ()
    remarks: tuple[DataError, ...] = ()


Sources = dict[CorpusText, TextSource]
"""The opened texts of a run."""
LanguageSources = Sequence[tuple[str, TextSource]]
"""Monolingual sources, each with its language."""


def identifies_file(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """True of what identifies a file: name, bytes, time or version, digest."""
    return isinstance(value, tuple) and len(value) == 4


def all_of(reads: Iterable[Callable[..., Iterable[ItemT]]], **how: Any) -> Iterator[ItemT]:
    """Read all inputs; an error about all that cannot be read is raised at the end."""
    errors = list[DataError]()
    for read in reads:
        try:
            yield from read(**how)
        except MissingColumnError:  # a mistake of the spec
            raise
        except DataError as error:
            errors.append(error)
    refuse_all(errors)


def pieces_of_text(text: str, amount: int) -> Iterator[Piece]:
    """The pieces of a document in memory; ``amount`` is counted with the first."""
    first, start = True, 0
    while start < len(text) or first:
        end = _cut(text, start)
        yield Piece(text[start:end], first, amount if first else 0)
        first, start = False, end


def _cut(text: str, start: int) -> int:
    """The end of a piece: after a blank line if there is one, else a line, else a word."""
    limit = start + PIECE_BYTES
    if limit >= len(text):
        return len(text)
    for mark in ("\n\n", "\n", " ", ITEM_END):
        if (place := text.rfind(mark, start, limit)) > start:
            return place + len(mark)
    return limit


def split_sentences(text: str, how: Sentences) -> list[str]:
    """The non-empty sentences of a text, white space inside normalised to single spaces.

    A blank line always ends a sentence; English rules decide the rest. With ``lines`` each line is
    a sentence; with ``whole`` too, unchanged and with its line end. Items of a list are one.
    """
    if ITEM_END in text:
        return [text.replace(ITEM_END, " ").rstrip()]
    if how == "whole":
        return text.splitlines(keepends=True)
    if any(end in text for end in _LINE_ENDS):  # the patterns are slow where none is
        text = _LINE_END.sub("\n", text)
    if how == "lines":
        raw_sentences = text.split("\n")
    else:
        end = _PARAGRAPH_END if "\u2029" in text else _BLANK_LINE
        raw_sentences = [s for part in end.split(text) for s in sentencex.segment("en", part)]
    return [clean for sentence in raw_sentences if (clean := " ".join(sentence.split()))]


class OpenFile:
    """An open file: ``stream`` has its decompressed bytes, ``amount`` counts those read on disk."""

    def __init__(self, path: AnyFile, raw: BinaryIO, stream: BinaryIO) -> None:
        self.path, self.stream = path, stream
        self.end: int | None = None
        """The byte at which the part to read ends, if not the file."""
        self.share = (0, 1)
        """The share of a Parquet file's row groups to read: its number, of how many."""
        self.read_fraction: float | None = None
        """The fraction read so far, set by readers that do not read in order."""
        self._raw, self._counted = raw, 0

    def limit(self, start: int, end: int) -> None:
        """Read bytes from ``start`` up to ``end`` of a plain file alone."""
        self._raw.seek(start)
        self._counted, self.end = start, end

    def amount(self) -> int:
        """The bytes of the file on disk that were read since the last call."""
        before = self._counted
        if self.read_fraction is None:
            self._counted = self._raw.tell()
        else:
            self._counted = round(self.read_fraction * size_of(self.path))
        return self._counted - before


@contextlib.contextmanager
def opened_stream(path: AnyFile) -> Iterator[OpenFile]:
    """Open a plain, gzip or zstandard file for reading."""
    if isinstance(path, Path) and is_folder(path):
        raise DataError(f"{path} is a folder, not a file", "name a file in it")
    with open_anywhere(path) as raw:
        try:
            yield OpenFile(path, raw, _unpack(path, raw))
        except (EOFError, zlib.error, OSError):
            message = f"cannot unpack {path}: it is damaged, cut short, or not what its ending says"
            raise DataError(message, "copy or download it again") from None


def _unpack(path: AnyFile, raw: BinaryIO) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if path.suffix == ".zst":
        import pyarrow

        return cast(BinaryIO, pyarrow.CompressedInputStream(raw, "zstd"))
    return raw


def lines(file: OpenFile) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, numbered from 1, without line ends."""
    number, rest = 0, list[bytes]()
    for chunk in chunks(file):
        ended_lines, ended, begun = chunk.rpartition(b"\n")
        if ended:
            text = decode(b"".join((*rest, ended_lines)), file.path, number + 1)
            rest = []
            for line in text.split("\n"):
                number += 1
                yield number, line.removesuffix("\r")
        rest.append(begun)
        if sum(map(len, rest)) > LARGEST_LINE_BYTES:
            message = f"{file.path}:{number + 1}: a line is longer than 256 MiB"
            raise DataError(message, help="begin a new line with every document or row")
    if last := b"".join(rest):
        yield number + 1, decode(last, file.path, number + 1).removesuffix("\r")


def chunks(file: OpenFile) -> Iterator[bytes]:
    """The bytes of a file, or of the part to read, in chunks of about ``PIECE_BYTES``."""
    remaining = sys.maxsize if file.end is None else file.end - file.stream.tell()
    while chunk := file.stream.read(min(PIECE_BYTES, remaining)):
        remaining -= len(chunk)
        yield chunk


def decode(raw: bytes, path: AnyFile, line: int, *, complete: bool = True) -> str:
    """Decode UTF-8 from ``line`` of a file; unless ``complete`` it may end in a character."""
    if line == 1:
        refuse_utf_16(str(path), raw)
    try:
        text, _ = codecs.utf_8_decode(raw, "strict", complete)
    except UnicodeDecodeError as error:
        raise not_utf8(str(path), raw, error.start, line) from None
    return text.removeprefix("\ufeff") if line == 1 else text


def text_of(file: OpenFile) -> Iterator[Piece]:
    """A text file as one document; pieces end at a blank line, else a line, else a space."""
    first, line, rest = True, 1, b""
    for chunk in chunks(file):
        rest += chunk
        blank = max((m.end() for m in DOCUMENT_END.finditer(rest)), default=0)
        cut = blank or rest.rfind(b"\n") + 1 or rest.rfind(b" ") + 1
        if cut:
            yield Piece(decode(rest[:cut], file.path, line), first, file.amount())
            first, line, rest = False, line + rest.count(b"\n", 0, cut), rest[cut:]
    if rest or first:
        yield Piece(decode(rest, file.path, line), first, file.amount())


def blocks_of(file: OpenFile) -> Iterator[Piece]:
    """A file in BERT's input format: a sentence a line, blank lines between documents."""
    block: list[str] = []
    characters, first = 0, True
    for _, line in lines(file):
        ended = not line.strip()
        if not ended:
            block.append(line)
            characters += len(line)
        if block and (ended or characters > 1 << 20):
            yield Piece("\n".join(block), first, file.amount())
            block, characters, first = [], 0, False
        first = first or ended
    if block:
        yield Piece("\n".join(block), first, file.amount())
