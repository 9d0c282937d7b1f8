"""Streams of files, decompressed on the way; errors name file and line."""

import codecs
import contextlib
import gzip
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from bertc.base.diagnostics import DataError
from bertc.base.storage.encodings import not_utf8, refuse_utf_16
from bertc.base.storage.files import AnyFile, opened_anywhere, size_of
from bertc.text.sources.source import PIECE_BYTES

LARGEST_LINE_BYTES = 256 * 2**20


class OpenFile:
    """An open file: ``stream`` has its decompressed bytes, ``amount`` counts those read on disk."""

    def __init__(self, path: AnyFile, raw: BinaryIO, stream: BinaryIO) -> None:
        self.path = path
        self.stream = stream
        self.end: int | None = None
        """The byte at which the part to read ends, if not the file."""
        self.share = (0, 1)
        """The share of a Parquet file's row groups to read: its number, of how many."""
        self.read_fraction: float | None = None
        """The fraction read so far, set by readers that do not read in order."""
        self._raw = raw
        self._counted = 0

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
    with opened_anywhere(path) as raw:
        try:
            yield OpenFile(path, raw, _unpack(path, raw))
        except (EOFError, zlib.error, OSError):
            message = f"cannot unpack {path}: it is damaged, cut short, or not what its ending says"
            raise DataError(message, "copy or download it again") from None


def _unpack(path: AnyFile, raw: BinaryIO) -> BinaryIO:
    match path.suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
        case ".zst":
            import pyarrow

            return cast(BinaryIO, pyarrow.CompressedInputStream(raw, "zstd"))
        case _:
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
    left = sys.maxsize if file.end is None else file.end - file.stream.tell()
    while chunk := file.stream.read(min(PIECE_BYTES, left)):
        left -= len(chunk)
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
