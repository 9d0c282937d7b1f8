"""Folders that are either whole or not there: made aside, synced, renamed, checked when opened."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bertc.data.progress import Progress
from bertc.diagnostics import CannotWriteError, DataError

MANIFEST = "manifest.json"
CHECKED_BYTES = 64 << 20
"""Files up to this size are hashed at every opening; of larger ones the size is checked."""
WAIT_SECONDS = 0.2

Facts = Mapping[str, Any]


def default_cache() -> Path:
    """``$BERTC_CACHE``, else ``bertc`` in the user's cache folder."""
    if chosen := os.environ.get("BERTC_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bertc"


def fingerprint(*facts: Any) -> str:
    """sha256 of plain values, written canonically."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def obtain(
    folder: Path, make: Callable[[Path], Facts], progress: Progress, expected_bytes: int = 0
) -> Facts:
    """The facts kept in ``folder``, which ``make`` fills first if it is missing or damaged.

    ``make`` writes into a temporary folder and returns the facts to keep. One process makes, the
    others wait. A folder left by a process that died has another name and is never read.

    Raises:
        CannotWriteError: the folder cannot be written; says what is needed and what is free.
    """
    if (facts := _intact(folder)) is not None:
        return facts
    with _writing(folder, expected_bytes), _alone(folder, progress):
        if (facts := _intact(folder)) is not None:
            return facts
        if folder.exists():
            progress.note(f"{folder} is damaged and made anew")
            shutil.rmtree(folder)
        for leftover in folder.parent.glob(f"{folder.name}.tmp-*"):
            shutil.rmtree(leftover)
        temporary = folder.parent / f"{folder.name}.tmp-{os.getpid()}"
        temporary.mkdir()
        try:
            facts = make(temporary)
            _seal(temporary, facts)
            os.rename(temporary, folder)
            _sync(folder.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return facts


def verify(folder: Path) -> Facts:
    """The facts of a folder, after reading every byte of it.

    Raises:
        DataError: something in it is missing or not what was written.
    """
    if (facts := _intact(folder, limit_bytes=None)) is None:
        raise DataError(f"{folder} is damaged", "delete it; it is made again when needed")
    return facts


def _seal(folder: Path, facts: Facts) -> None:
    """Write the manifest and push everything to the disk."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        _sync(path)
        files[path.relative_to(folder).as_posix()] = [path.stat().st_size, _sha256(path)]
    content = json.dumps({"facts": facts, "files": files}, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    (folder / MANIFEST).write_text(f"{digest}\n{content}\n", encoding="utf-8")
    _sync(folder / MANIFEST)
    _sync(folder)


def _intact(folder: Path, limit_bytes: int | None = CHECKED_BYTES) -> Facts | None:
    """The facts of a folder whose files are those of its manifest, else None."""
    try:
        digest, content, end = (folder / MANIFEST).read_text(encoding="utf-8").split("\n")
        if end or hashlib.sha256(content.encode()).hexdigest() != digest:
            return None
        manifest = json.loads(content)
        for name, (size_bytes, expected) in manifest["files"].items():
            path = folder / name
            if path.stat().st_size != size_bytes:
                return None
            small = limit_bytes is None or size_bytes <= limit_bytes
            if small and _sha256(path) != expected:
                return None
    except (OSError, ValueError):
        return None
    return dict(manifest["facts"])


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of a folder; the system drops it when the process ends, however it ends."""
    with (folder.parent / f"{folder.name}.lock").open("a") as lock:
        if not _locked(lock):
            progress.begin(f"waiting for the process that prepares {folder}", 0, "")
            while not _locked(lock):
                time.sleep(WAIT_SECONDS)
                progress.advance(0)  # may be told to stop
            progress.end()
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _writing(folder: Path, expected_bytes: int) -> Iterator[None]:
    """Turn what the system says of a disk into an error a user can act on."""
    elsewhere = "choose another place with BERTC_CACHE=FOLDER"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if expected_bytes > shutil.disk_usage(folder.parent).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise CannotWriteError(
                f"cannot write to {folder.parent}: {os.strerror(error.errno)}", elsewhere
            ) from None
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        free_bytes = shutil.disk_usage(folder.parent).free
        raise CannotWriteError(
            f"no room for {folder}: about {expected_bytes:,} bytes are needed, "
            f"{free_bytes:,} are free",
            f"free some, or {elsewhere}",
        ) from None
