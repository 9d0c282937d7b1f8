"""Files to read wherever they are, by paths or addresses in a store; formats by their endings."""

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, cast

from bertc.base.storage import plain_file
from bertc.base.storage.paths import files_matching
from bertc.base.storage.place import FolderAt

PACKED = (".gz", ".zst")
SEQUENCES, READS = (".fasta", ".faa", ".fna"), (".fastq", ".fq")
"""Endings of sequences in FASTA, and of reads in FASTQ."""
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet", *SEQUENCES, *READS)
"""Endings of files whose rows have columns; all other files are text."""
_MADE_TEXT = {
    ".json": "an object a line: name it {1}.jsonl; a list: jq -c '.[]' {0} > {1}.jsonl",
    ".bz2": "bzip2 -dc {0} | gzip > {1}.gz",
    ".xz": "xz -dc {0} | gzip > {1}.gz",
    ".zip": "unzip {0} -d {1}, and name the files in it",
}
NO_TEXT = (*_MADE_TEXT, ".html", ".xml", ".pdf", ".docx", ".tar", ".tgz", ".7z", ".npy")
"""Endings of files that are never plain text, whatever bytes they hold."""
BLOCK_BYTES = 4 << 20
"""Bytes of a store that one request asks for when a file is read in order."""
LARGEST_RANGE_BYTES = 64 << 20
"""Most bytes of one request, so that little is asked for again after a failure."""


class FileAt(NamedTuple):
    """A file in a store: what its readers use of a path; ``version`` changes with its content."""

    address: str
    size: int
    version: str

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """Its name in its folder."""
        return PurePosixPath(self.address.partition("?")[0]).name

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return PurePosixPath(self.name).suffix


AnyFile = Path | FileAt


def suffix(path: AnyFile) -> str:
    """The ending that names the format, without that of the compression."""
    return Path(path.name).with_suffix("").suffix if path.suffix in PACKED else path.suffix


def no_text(path: AnyFile) -> tuple[str, str]:
    """Message and help for a file whose ending is in ``NO_TEXT``."""
    message = f"{path}: a {suffix(path)} file is neither plain text nor rows of columns"
    if way := _MADE_TEXT.get(suffix(path)):
        return message, way.format(path, str(path).removesuffix(path.suffix))
    reads = f"bertc reads text, and columns of {', '.join(FORMATS)} files"
    return message, f"{reads}, each also with {' or '.join(PACKED)}"


class _Ranges(io.RawIOBase):
    def __init__(self, file: FileAt) -> None:
        self._file, self._store, self._at = file, FolderAt(file.address), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

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


def open_anywhere(file: AnyFile) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading, in a store by ranges of it; a failure to read it says why."""
    if isinstance(file, FileAt):
        return cast(BinaryIO, io.BufferedReader(_Ranges(file), BLOCK_BYTES))
    return plain_file.opened(file)


def size_of(file: AnyFile) -> int:
    """The size of a file in bytes."""
    return file.size if isinstance(file, FileAt) else file.stat().st_size
