"""Files to read wherever they are: paths on this machine, or addresses in a store."""

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, cast

from bertc.base.storage import plain_file
from bertc.base.storage.formats import AnyFile, FileAt
from bertc.base.storage.paths import files_matching
from bertc.base.storage.place import FolderAt

BLOCK_BYTES = 4 << 20
"""Bytes of a store that one request asks for when a file is read in order."""
LARGEST_RANGE_BYTES = 64 << 20
"""Most bytes of one request, so that little is asked for again after a failure."""


class _Ranges(io.RawIOBase):
    def __init__(self, file: FileAt) -> None:
        self._file, self._store, self._at = file, FolderAt(file.address), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = (0, self._at, self._file.size)[whence] + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        end = min(self._at + min(len(buffer), LARGEST_RANGE_BYTES), self._file.size)
        count = max(0, end - self._at)
        if count:
            buffer[:count] = self._store.read_range(self._at, end)
            self._at = end
        return count

    def readall(self) -> bytes:
        rest = memoryview(bytearray(max(0, self._file.size - self._at)))
        done = 0
        while done < len(rest):
            done += self.readinto(rest[done:])
        return bytes(rest)


def is_address(name: str) -> bool:
    """True for the address of a store; a path, also as ``file://``, is on this machine."""
    return "://" in name and not name.startswith("file://")


def files_anywhere(name: str) -> Iterator[AnyFile]:
    """The files that a name or a pattern matches, on this machine or in a store, in no order."""
    if is_address(name):
        yield from (FileAt(*facts) for facts in FolderAt(name).matching())
    else:
        yield from files_matching(name.removeprefix("file://"))


def opened_anywhere(file: AnyFile) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading, in a store by ranges of it; a failure to read it says why."""
    if isinstance(file, FileAt):
        return cast(BinaryIO, io.BufferedReader(_Ranges(file), BLOCK_BYTES))
    return plain_file.opened(file)


def size_of(file: AnyFile) -> int:
    """The size of a file in bytes."""
    return file.size if isinstance(file, FileAt) else file.stat().st_size
