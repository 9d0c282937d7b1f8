"""Bounded reading of regular files; devices, pipes and folders are refused without waiting."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.encodings import not_utf8
from bertc.base.storage.paths import StrPath, check_path, working_folder

_REASONS = {
    errno.ENOENT: "it is not there",
    errno.ENOTDIR: "it is not there",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "it is a link that leads to itself",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EISDIR: "it is a folder",
}
_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
}


def kind_of(mode: int) -> str:
    """The kind of what is no plain file: ``it is a pipe``."""
    return _KINDS.get(stat.S_IFMT(mode), "it is no plain file")


def kind_there(path: StrPath) -> str | None:
    """The kind of what has this name and is no plain file; None of a plain file or of nothing."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return None if stat.S_ISREG(mode) else kind_of(mode)


@contextmanager
def opened(path: StrPath) -> Iterator[BufferedReader]:
    """Open a regular file for reading; a failure to read it inside the block is reported too."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path, kind_of(status.st_mode))
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise _unreadable(path, reason(error)) from None
    except ValueError:
        raise _unreadable(path, "no file has such a name") from None
    with file:
        try:
            yield file
        except OSError as error:
            raise _unreadable(path, reason(error)) from None


def read_bytes(path: StrPath, max_bytes: int) -> bytes:
    """The content of a plain file."""
    with opened(path) as file:
        # The size is checked first, so a file that is far too large is not read at all.
        if os.fstat(file.fileno()).st_size <= max_bytes:
            content = file.read(max_bytes + 1)
            if len(content) <= max_bytes:
                return content
    raise DataError(f"{path} is larger than {_amount(max_bytes)}")


def read_text(path: StrPath, max_bytes: int) -> str:
    """The text of a UTF-8 file; line ends stay as they are."""
    content = read_bytes(path, max_bytes)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(Path(path), content, error.start) from None


def size_bytes(path: StrPath) -> int:
    """The size of a plain file."""
    with opened(path) as file:
        return os.fstat(file.fileno()).st_size


def reason(error: OSError) -> str:
    """The reason behind an OSError, in the words of bertc's messages."""
    words = _REASONS.get(error.errno or 0)
    return words or (error.strerror or "it cannot be read").lower()


def _unreadable(path: StrPath, why: str) -> MissingInputError:
    message, help = f"cannot read {Path(path)}: {why}", "check the path"
    if why == _REASONS[errno.ENOENT]:
        message, help = f"{Path(path)} is not there", check_path(path)
    if not os.path.isabs(path) and not help.endswith("?"):
        help += f"; names of files begin in {working_folder()}"
    return MissingInputError(message, help)


def _amount(max_bytes: int) -> str:
    mib, rest = divmod(max_bytes, 2**20)
    return f"{max_bytes:,} bytes" if rest or not mib else f"{mib:,} MiB"
