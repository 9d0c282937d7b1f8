"""Copies of a store's shards on this machine, shared by its processes, within a budget.

A shard's folder and those of its rows, ``SHARD-ROWS``, go together, the one opened longest ago
first. Whoever reads a shard has a lock on its manifest, which keeps it.
"""

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from bertc.base.diagnostics import CannotWriteError
from bertc.base.storage.durable import TOO_LITTLE_ROOM, lock
from bertc.base.storage.paths import is_file
from bertc.text.cache.store import MANIFEST_FILE, Facts, Progress, obtain

RESERVED = "reserved"
"""A file as large as an unfinished copy will be, without content: others count that size."""
LEFT_SECONDS = 3600
"""Age from which a copy that was not finished is that of a killed process."""


def copied(
    folder: Path,
    copy: Callable[[Path], Facts],
    progress: Progress,
    expected_bytes: int,
    most_bytes: int = 0,
) -> int:
    """Copy a shard unless it is there; return a lock that keeps it until it is closed.

    Shards that nobody reads make room where all, with the copies that any process has begun, would
    have more than ``most_bytes`` (0: no limit), or the disk is full.
    """

    def fill(aside: Path) -> Facts:
        with (folder.parent / "room.lock").open("w") as room:
            lock(room.fileno())
            if most_bytes:
                make_room(folder.parent, expected_bytes, most_bytes)
            with (aside / RESERVED).open("wb") as reserved:
                reserved.truncate(expected_bytes)
        facts = copy(aside)
        (aside / RESERVED).unlink()
        return facts

    while True:
        try:
            obtain(folder, fill, progress, expected_bytes)
        except CannotWriteError as error:
            full = isinstance(error.__cause__, OSError) and error.__cause__.errno in TOO_LITTLE_ROOM
            if not (full and make_room(folder.parent, 2 * expected_bytes)):
                raise
            continue
        if (descriptor := _locked(folder, fcntl.LOCK_SH)) is not None:
            with contextlib.suppress(OSError):  # others filled the cache, which is only read here
                os.utime(folder / MANIFEST_FILE)
            return descriptor


def make_room(shards: Path, needed_bytes: int, most_bytes: int | None = None) -> bool:
    """Remove shards until ``needed_bytes`` fit into ``most_bytes``, or are free; if any was."""
    by_shard = defaultdict[str, list[Path]](list)
    for path in shards.glob("*"):
        if path.suffix != ".lock":
            by_shard[re.split(r"[-.]", path.name)[0]].append(path)
    sized = sorted((*_opened_and_size(folders), folders) for folders in by_shard.values())
    surplus = needed_bytes
    if most_bytes is not None:
        surplus += sum(size for _, size, _ in sized) - most_bytes
    before = surplus
    for _, size, folders in sized:
        if surplus > 0 and _remove_folders(folders):
            surplus -= size
    return surplus < before


def _opened_and_size(folders: list[Path]) -> tuple[float, int]:
    """The time at which a shard was opened last, and its bytes with its rows."""
    opened, size = 0.0, 0
    for folder in folders:
        sizes = dict[str, int]()
        # A folder may be removed or made by another process meanwhile.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for name, status in ((entry.name, entry.stat()) for entry in entries):
                opened, sizes[name] = max(opened, status.st_mtime), status.st_size
        size += max(sizes.pop(RESERVED, 0), sum(sizes.values()))
    return opened, size


def _remove_folders(folders: list[Path]) -> bool:
    """Remove the folders of a shard, unless it is read, or may be copied now."""
    descriptor, now = None, time.time()
    try:
        finished = [f for f in folders if not f.suffix and is_file(f / MANIFEST_FILE)]
        unfinished = [folder.stat().st_mtime for folder in folders if folder not in finished]
        if any(begun > now - LEFT_SECONDS for begun in unfinished):
            return False
        if finished:  # the name of the shard itself is the shortest
            shard = min(finished, key=lambda folder: len(folder.name))
            if (descriptor := _locked(shard, fcntl.LOCK_EX | fcntl.LOCK_NB)) is None:
                return False
        for folder in folders:  # renamed first: other processes find all of it, or nothing
            aside = folder.with_name(f".removed-{os.getpid()}-{folder.name}")
            folder.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
    except OSError:  # of another user, or on a disk that is only read
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def _locked(folder: Path, how: int) -> int | None:
    """Lock the manifest of a folder; None if it is gone, or another lock is in the way."""
    path = folder / MANIFEST_FILE
    try:
        descriptor = os.open(path, os.O_RDWR if how & fcntl.LOCK_EX else os.O_RDONLY)
    except FileNotFoundError:
        return None
    with contextlib.suppress(BlockingIOError, FileNotFoundError):
        lock(descriptor, how)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    os.close(descriptor)
    return None
