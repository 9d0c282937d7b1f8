"""Bytes of a file as they come, unpacked on the way, with the place of anything unreadable."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from bertc.data.sources.source import PIECE_BYTES
from bertc.diagnostics import DataError
from bertc.storage import plain_file

LONGEST_LINE_BYTES = 64 << 20
"""A longer line is refused: it must fit in memory several times over."""


class Opened:
    """An open file: ``stream`` gives its unpacked bytes, ``amount`` the packed bytes read since."""

    def __init__(self, path: Path, raw: BinaryIO, stream: BinaryIO) -> None:
        self.path = path
        self.stream = stream
        self.done: float | None = None
        """The part read so far, set by a reader that does not go from the start to the end."""
        self._raw = raw
        self._told = 0

    def amount(self) -> int:
        """Bytes of the file itself read since the last call."""
        before = self._told
        if self.done is None:
            self._told = self._raw.tell()
        else:
            self._told = round(self.done * self.path.stat().st_size)
        return self._told - before


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a plain, gzip or zstandard file.

    Raises:
        MissingInputError: it cannot be opened.
        DataError: its packing is damaged, noticed here or while it is read.
    """
    with plain_file.opened(path) as raw:
        try:
            yield Opened(path, raw, _unpacked(path, raw))
        except (EOFError, zlib.error, OSError):
            raise DataError(
                f"cannot unpack {path}: it is damaged, cut short, or not what its ending says",
                "copy or download it again",
            ) from None


def _unpacked(path: Path, raw: BinaryIO) -> BinaryIO:
    match path.suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
        case ".zst":
            import pyarrow

            return cast(BinaryIO, pyarrow.CompressedInputStream(raw, "zstd"))
        case _:
            return raw


def lines(file: Opened) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers, from 1, without their ends.

    Raises:
        DataError: a line is not UTF-8 or is longer than ``LONGEST_LINE_BYTES``.
    """
    number, rest = 0, b""
    for chunk in chunks(file):
        whole, ended, rest = (rest + chunk).rpartition(b"\n")
        if ended:
            for line in decode(whole, file.path, number + 1).split("\n"):
                number += 1
                yield number, line.removesuffix("\r")
        if len(rest) > LONGEST_LINE_BYTES:
            raise DataError(
                f"{file.path}:{number + 1}: line longer than {LONGEST_LINE_BYTES:,} bytes",
                "put each document in a row of its own",
            )
    if rest:
        yield number + 1, decode(rest, file.path, number + 1).removesuffix("\r")


def chunks(file: Opened) -> Iterator[bytes]:
    """The bytes of a file, about ``PIECE_BYTES`` at a time."""
    while chunk := file.stream.read(PIECE_BYTES):
        yield chunk


def decode(raw: bytes, path: Path, line: int) -> str:
    """UTF-8 text that starts at ``line`` of a file; a byte order mark on line 1 is dropped.

    Raises:
        DataError: it is not UTF-8; names the line.
    """
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        place = line + raw.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}:{place}: byte 0x{raw[error.start]:02x} is not UTF-8",
            "save the file as UTF-8",
        ) from None
