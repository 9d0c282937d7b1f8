"""Writing that survives a kill or a power cut, and says why when it cannot."""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from bertc.diagnostics import CannotWriteError

TOO_LITTLE_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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


def rename(source: Path, target: Path) -> None:
    """Give a finished file or folder its name; the moment from which it exists."""
    os.rename(source, target)
    sync(target.parent)


def replace(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds the old content or the new, never a part."""
    aside = path.with_name(f".tmp-{path.name}")
    aside.unlink(missing_ok=True)
    with writing(path, len(content)):
        write(aside, content)
        os.replace(aside, path)
        sync(path.parent)


def digest(path: Path) -> str:
    """sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing(path: Path, needed_bytes: int) -> Iterator[None]:
    """What is inside writes ``needed_bytes`` at ``path``; a failure names both and what is free.

    Raises:
        CannotWriteError: before anything is written if the disk has less room, or when it fails.
    """
    if needed_bytes > _free(path):
        raise _cannot_write(path, needed_bytes, "the disk is full")
    try:
        yield
    except OSError as error:
        reason = error.strerror or "unknown reason"
        if error.errno not in TOO_LITTLE_ROOM:
            raise CannotWriteError(
                f"cannot write {path}: {reason}",
                help="choose another place; what was saved before is intact",
            ) from None
        raise _cannot_write(path, needed_bytes, reason) from error
    except SafetensorError as error:
        raise _cannot_write(path, needed_bytes, _reason(str(error))) from error


def _free(path: Path) -> int:
    """Bytes free on the disk that holds ``path`` or will."""
    existing = next(p for p in (path, *path.absolute().parents) if p.exists())
    return shutil.disk_usage(existing).free


def _cannot_write(path: Path, needed: int, reason: str) -> CannotWriteError:
    return CannotWriteError(
        f"cannot write {path}: {reason} ({needed:,} bytes needed, {_free(path):,} free)",
        help="make room or choose another --out; what was saved before is intact, "
        "and --resume goes on from there",
    )


def _reason(message: str) -> str:
    """The operating system's reason from a message such as "I/O error: File too large (os ...)"."""
    return message.split("(os error")[0].rpartition(": ")[2].strip().lower() or "unknown reason"
