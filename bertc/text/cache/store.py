"""Cache folders, complete or absent; progress reports of their preparation; copies of shards.

A shard that is copied from a store goes with its rows, ``SHARD-ROWS``, the one opened longest ago
first, where a budget asks for room. Whoever reads a shard has a lock on its manifest.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bertc.base.diagnostics import CannotWriteError, DataError, LostStoreError, MissingInputError
from bertc.base.storage import durable
from bertc.base.storage.durable import TOO_LITTLE_ROOM, lock
from bertc.base.storage.paths import is_file, is_taken
from bertc.base.storage.plain_file import read_text, size_bytes


class Progress:
    """Receiver of progress reports. Any method may raise to stop the preparation cleanly."""

    def begin(self, task: str, total: int, unit: str) -> None:
        """Start a task of ``total`` ``unit`` ("bytes" or "rows"), 0 if unknown."""

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units of the current task as done."""

    def end(self) -> None:
        """Finish the current task."""

    def note(self, message: str) -> None:
        """Report a remark: a smaller vocabulary, text cut off, a damaged cache rebuilt."""


Silent = Progress
"""A receiver that ignores all reports."""
MANIFEST_FILE = "manifest.json"
CHECKED_BYTES = 64 << 20
"""Files up to this size are hashed at every opening; larger ones are checked by size."""
WAIT_SECONDS = 0.2
LARGEST_MANIFEST_BYTES = 64 << 20
OTHER_CACHE_HELP = "choose another place with BERTC_CACHE=FOLDER"
Facts = Mapping[str, Any]


def fingerprint(*facts: Any) -> str:
    """sha256 of plain values in canonical JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def obtain(
    folder: Path,
    make: Callable[[Path], Facts],
    progress: Progress,
    expected_bytes: int = 0,
    anew: bool = False,
    keyed: bool = True,
) -> Facts:
    """The facts stored in ``folder``; if it is missing or damaged, ``make`` fills it first.

    ``anew``: it is made in any case, and in its place only when it is whole. ``keyed``: its name
    says what it holds, so under another name it is damaged.
    """
    if not anew and (facts := intact(folder)) is not None:
        return facts
    with durable.writing(folder, expected_bytes, OTHER_CACHE_HELP):
        durable.make_folder(folder.parent)
        with _lock(folder, progress):
            if not anew and (facts := intact(folder)) is not None:
                return facts
            if is_taken(folder) and not anew:
                progress.note(f"{folder} is damaged and made again")
                durable.remove(folder)
            for leftover in folder.parent.glob(f"{folder.name}.tmp-*"):
                durable.remove(leftover)
            temporary = folder.parent / f"{folder.name}.tmp-{os.getpid()}"
            temporary.mkdir()
            try:
                facts = make(temporary)
                seal(temporary, facts, folder.name if keyed else "")
                if anew:
                    durable.remove(folder)
                durable.rename(temporary, folder)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
    return facts


def seal(folder: Path, facts: Facts, key: str = "") -> None:
    """Write the manifest of a folder: its facts, its key, and size and sha256 of each file."""
    durable.sync_all(folder)
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        files[path.relative_to(folder).as_posix()] = [path.stat().st_size, durable.digest(path)]
    manifest = {"facts": facts, "files": files, **({"key": key} if key else {})}
    content = json.dumps(manifest, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    (folder / MANIFEST_FILE).write_text(f"{digest}\n{content}\n", encoding="utf-8")
    durable.sync(folder / MANIFEST_FILE)
    durable.sync(folder)


def unseal(text: str) -> dict[str, Any] | None:
    """The content of a manifest, ``facts`` and ``files``; None if it is damaged or cut short."""
    digest, _, content = text.partition("\n")
    if not content.endswith("\n") or hashlib.sha256(content[:-1].encode()).hexdigest() != digest:
        return None
    return dict(json.loads(content))


def intact(folder: Path, checked_bytes: int = CHECKED_BYTES) -> Facts | None:
    """The facts of a folder if its files match its manifest, larger ones by size; else None."""
    if not is_file(folder / MANIFEST_FILE):  # most often it is not made yet
        return None
    try:
        manifest = unseal(read_text(folder / MANIFEST_FILE, LARGEST_MANIFEST_BYTES))
        if manifest is None or manifest.get("key", folder.name) != folder.name:
            return None
        for name, (size, expected) in manifest["files"].items():
            path = folder / name
            if size_bytes(path) != size:
                return None
            if size <= checked_bytes and durable.digest(path) != expected:
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, MissingInputError, DataError):
        return None
    return dict(manifest["facts"])


def clear(folder: Path) -> None:
    """Remove the locks that no process holds, and what killed processes left aside."""
    for path in folder.glob("*.lock"):
        with path.open("a") as lock:
            if _locked(lock):
                for leftover in folder.glob(f"{path.stem}.tmp-*"):
                    durable.remove(leftover)
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of a folder; the system releases it however the process ends.

    Those who wait fail as the holder does where an input is missing: none tries as long again. The
    file goes when the folder is made, so who had it open looks for the next one.
    """
    path = folder.parent / f"{folder.name}.lock"
    while True:
        with path.open("a+") as lock:
            before = lock.seek(0, os.SEEK_END)
            if not _locked(lock):
                progress.begin(f"waiting for the process that prepares {folder}", 0, "")
                while not _locked(lock):
                    time.sleep(WAIT_SECONDS)
                    progress.advance(0)  # may raise to stop
                progress.end()
                lock.seek(before)
                if failures := lock.readlines():
                    lost, *texts = json.loads(failures[-1])
                    raise (LostStoreError if lost else MissingInputError)(*texts)
            if os.fstat(lock.fileno()).st_nlink == 0:
                continue
            try:
                yield
            except (MissingInputError, LostStoreError) as error:
                lost = isinstance(error, LostStoreError)
                lock.write(f"{json.dumps([lost, error.message, error.help])}\n")
                raise
            path.unlink(missing_ok=True)
            return


def _locked(file: IO[str]) -> bool:
    with contextlib.suppress(BlockingIOError):
        lock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


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
        if (descriptor := _lock_manifest(folder, fcntl.LOCK_SH)) is not None:
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
            if (descriptor := _lock_manifest(shard, fcntl.LOCK_EX | fcntl.LOCK_NB)) is None:
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


def _lock_manifest(folder: Path, how: int) -> int | None:
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
