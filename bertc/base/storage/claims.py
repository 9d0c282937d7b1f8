"""Claims: a locked file says that a process of any machine with this folder is at work.

File systems without locks (some mounts of Lustre and NFS) let every process in: there nothing
keeps two commands from one folder.
"""

import errno
import fcntl
import os
from pathlib import Path

from bertc.base.storage import durable

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def lock(descriptor: int, how: int = fcntl.LOCK_EX) -> None:
    """Lock an open file until it is closed, as far as its file system has locks."""
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def claim(path: Path) -> int | None:
    """Lock a file until the descriptor is closed or its process ends; None if another has it."""
    durable.make_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
