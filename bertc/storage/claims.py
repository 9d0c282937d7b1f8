"""Claims: a locked file says that a process of any machine with this folder is at work."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertc.storage import durable


def claim(path: Path) -> int | None:
    """Lock a file for this process until the descriptor is closed; None if another has it.

    A process that is killed leaves none locked.

    Raises:
        CannotWriteError: if the folder cannot be written.
    """
    durable.make_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Hold a claim meanwhile; false if another process has it."""
    descriptor = claim(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)
