"""Claims: a locked file says that a process of any machine with this folder is at work.

File systems without locks (some mounts of Lustre and NFS) let every process in: there nothing
keeps two commands from one folder.
"""

import errno
import fcntl

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def lock(descriptor: int, how: int = fcntl.LOCK_EX) -> None:
    """Lock an open file until it is closed, as far as its file system has locks."""
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
