"""Durable writing: files survive a kill or a power cut, and a failure says why."""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertc.base.diagnostics import BertcError, CannotWriteError
from bertc.base.storage.paths import existing_folder, working_folder
from bertc.base.storage.plain_file import opened

TOO_LITTLE_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TOO_LITTLE_ELSE = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
"""Shortages of the machine, not of the place that is written: another place does not help."""
ANOTHER_OUT = "choose another --out; what was saved before is intact"
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
"""The error number in the text of errors that Rust libraries (safetensors, tokenizers) raise."""


def write(path: Path, content: bytes) -> None:
    """Put ``content`` into a new file and wait until the disk has it."""
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Wait until the disk has a folder and all in it."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def make_folder(path: Path) -> None:
    """Make a folder, if it is not there, and those above it; the disk then has their names."""
    above, folder = existing_folder(path), working_folder() / path
    path.mkdir(parents=True, exist_ok=True)
    while folder != above:
        folder = folder.parent
        sync(folder)


def rename(source: Path, target: Path) -> None:
    """Give a finished file or folder its final name, atomically and synced to the disk."""
    os.rename(source, target)
    sync(target.parent)


def remove(path: Path) -> None:
    """Remove a file, a link (its target stays) or a folder with all in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replace(path: Path, content: bytes, elsewhere: str = ANOTHER_OUT) -> None:
    """Write a file so that a reader finds the old content or the new, never a part."""
    with write_aside(path, len(content), elsewhere) as aside:
        write(aside, content)


@contextmanager
def write_aside(path: Path, needed_bytes: int, elsewhere: str) -> Iterator[Path]:
    """A new path for the block to write a file at; the finished file is then put at ``path``."""
    aside = path.with_name(f".tmp-{path.name}")
    with writing(path, needed_bytes, elsewhere):
        remove(aside)
        try:
            yield aside
            os.replace(aside, path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync(path.parent)


def digest(path: Path) -> str:
    """sha256 of a plain file."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing(path: Path, needed_bytes: int = 0, elsewhere: str = ANOTHER_OUT) -> Iterator[None]:
    """Let the block write ``needed_bytes`` at ``path``; a failure says why and what is free."""
    try:
        if needed_bytes > free_bytes(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield
    except BertcError:
        raise
    except Exception as error:
        wrapped = _SYSTEM_ERROR.search(str(error))
        number = int(wrapped[1]) if wrapped else None
        number = error.errno if isinstance(error, OSError) else number
        if number is None or number in TOO_LITTLE_ELSE:
            raise
        raise _cannot_write(path, number, needed_bytes, elsewhere) from error


def free_bytes(path: Path) -> int:
    """Free bytes on the disk of ``path``, which need not exist yet; many where it does not tell."""
    usage = shutil.disk_usage(existing_folder(path))
    return usage.free if usage.total else sys.maxsize


def _cannot_write(path: Path, number: int, needed: int, elsewhere: str) -> CannotWriteError:
    if number not in TOO_LITTLE_ROOM:
        return CannotWriteError(f"cannot write {path}: {os.strerror(number).lower()}", elsewhere)
    disk = os.statvfs(existing_folder(path))
    if number == errno.ENOSPC and disk.f_files and not disk.f_favail:
        message = f"cannot write {path}: the disk holds no more files"
        return CannotWriteError(message, f"remove some, or {elsewhere}")
    free = free_bytes(path)
    space = f"{needed:,} bytes needed, {free:,} free" if needed else f"{free:,} bytes free"
    reason = "the disk is full" if number == errno.ENOSPC else os.strerror(number).lower()
    resume_hint = ", and --resume goes on from there" if elsewhere == ANOTHER_OUT else ""
    message = f"cannot write {path}: {reason} ({space})"
    return CannotWriteError(message, f"make room, or {elsewhere}{resume_hint}")


def lock(descriptor: int, how: int = fcntl.LOCK_EX) -> None:
    """Lock an open file until it is closed: a process of any machine with its folder is at work.

    File systems without locks (some mounts of Lustre and NFS) let every process in: there nothing
    keeps two commands from one folder.
    """
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
