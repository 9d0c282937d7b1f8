"""A run at an address, sent there while it is trained: checkpoints, metrics, its small files.

The files have the names of a run folder (see folder.py). A checkpoint is there once its manifest
is, which goes last; it is removed there as it is here. At most two wait, as links to their files:
the one on its way, and the newest.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Literal

from bertc.base.diagnostics import (
    BertcError,
    CannotWriteError,
    DataError,
    ResumeRefusedError,
    UsageError,
    listed,
)
from bertc.base.storage.paths import is_file, real_path, user_path, working_folder
from bertc.base.storage.place import FolderAt
from bertc.base.storage.plain_file import read_bytes, reason
from bertc.hub.belonging import DIGESTS
from bertc.hub.folders import RESOLVED, checkpoint_name
from bertc.machine.display import Display
from bertc.machine.signals import Stop
from bertc.run.records.checkpoints import MANIFEST, TEMPORARY
from bertc.run.records.folder import RunFolder
from bertc.run.records.lock import LARGEST_BYTES

FOLDERS = ("tokenizer", "sentences", "trackers", "model")
"""Folders of a run that are sent, with all files next to them."""
STOPPED_SECONDS = 100.0
"""Most seconds that a stopped run waits for its last checkpoint to be sent."""
BEAT_SECONDS = 30.0
"""Seconds between two looks at the small files, and before what failed is sent again."""
_ANOTHER = "name another --mirror"


def belongs(name: str) -> bool:
    """True for the name of a small file that a run has at an address."""
    parts = PurePosixPath(name).parts
    is_hidden = any(part.startswith(".") for part in parts)
    return (len(parts) == 1 or parts[0] in FOLDERS) and not is_hidden


def address_for(run: Path, named: str | None, resume: bool) -> str:
    """The address of a run's mirror, as named, or on resume that of its last attempt."""
    if named is None:
        with suppress(DataError, IndexError):
            return RunFolder(run).read_attempts()[-1].mirror if resume else ""
        return ""
    here = named and "://" not in named
    return str(working_folder() / user_path(named)) if here else named.rstrip("/")


def refuse_another(place: FolderAt, run: RunFolder) -> None:
    """Refuse an address with another run than the one here: their locks differ."""
    here = read_bytes(run.lock, LARGEST_BYTES) if is_file(run.lock) else None
    if place.read(run.lock.name, LARGEST_BYTES) not in (None, here):
        message = f"{place.address} holds another run than {run.path}"
        raise ResumeRefusedError(message, help="name another --out or --mirror")


@contextmanager
def mirrored(mirror: "Mirror | None", resume: bool) -> Iterator[None]:
    """Send a run to its mirror, if any, during this block, and the rest after it.

    Raises:
        CannotWriteError: if something is missing there at the end.
    """
    if mirror is None:
        yield
        return
    mirror.begin(resume)
    try:
        yield
    except BaseException:
        missing = mirror.close(STOPPED_SECONDS)
        lacks = f"warning: {mirror.address} lacks {missing}"
        mirror.display.note(lacks if missing else f"{mirror.address} has all of it")
        raise
    if missing := mirror.close():
        path = mirror.folder.path
        message = f"{path} is trained to its end, but {mirror.address} lacks {missing}"
        raise CannotWriteError(message, help=f"bertc train --resume {path} sends it")


@dataclass(eq=False)
class Mirror:
    """A thread that sends what a run folder has; a failure is noted once, and tried again.

    ``keep`` is the number of checkpoints that stay there, besides those of the steps ``stay``;
    ``sent`` has age and size of the small files that are there.
    """

    address: str
    folder: RunFolder
    display: Display
    stop: Stop
    keep: int | Literal["all"]
    stay: tuple[int, ...] = ()
    place: FolderAt = field(init=False)
    sent: dict[str, tuple[int, int]] = field(init=False, default_factory=dict)
    waiting: tuple[str, Path] | None = field(init=False, default=None)
    unsent: str = field(init=False, default="")
    fault: str = field(init=False, default="")
    done_bytes: int = field(init=False, default=0)
    closing: bool = field(init=False, default=False)
    ended: bool = field(init=False, default=False)
    change: threading.Condition = field(init=False, default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.place = FolderAt(self.address)
        self._sender = threading.Thread(target=self._send_all, daemon=True)

    def begin(self, resume: bool) -> None:
        """Start to send; refuse an address with anything but this run."""
        there, address, folder = self.place.sizes(below=True), self.address, self.folder
        if self.place.folder and real_path(self.place.folder) == real_path(folder.path):
            raise UsageError(f"{address} is the run itself", help=_ANOTHER)
        if RESOLVED not in there and there:
            content = listed(sorted(there)[:3])
            raise UsageError(f"{address} is not empty and holds no run ({content})", help=_ANOTHER)
        if RESOLVED in there and not resume:
            help = f"--resume goes on with it, or {_ANOTHER}"
            raise UsageError(f"{address} holds a run already", help=help)
        refuse_another(self.place, folder)
        self.sent = {name: (0, 0) for name in there if belongs(name)}
        self._sender.start()

    def offer(self, checkpoint: Path) -> None:
        """Send a checkpoint, instead of one that still waits; it may be removed here meanwhile."""
        self.unsent = checkpoint.name
        if self.ended:
            return
        links = checkpoint.with_name(f"{TEMPORARY}sent-{time.monotonic_ns()}")
        shutil.copytree(checkpoint, links, copy_function=_link)
        with self.change:
            passed_over, self.waiting = self.waiting, (checkpoint.name, links)
            self.change.notify_all()
        if passed_over:
            shutil.rmtree(passed_over[1], ignore_errors=True)

    def close(self, seconds: float = float("inf")) -> str:
        """Wait for what is to be sent, at most so long; return what is missing there, and why."""
        with self.change:
            self.closing = True
            self.change.notify_all()
        display, end, shown = self.display, time.monotonic() + seconds, self.done_bytes
        display.begin(f"sending to {self.address}", 0, "bytes")
        while self._sender.is_alive() and time.monotonic() < end:
            self._sender.join(0.05)
            if self.stop.received and end == float("inf"):
                end = time.monotonic() + STOPPED_SECONDS
            shown, new = self.done_bytes, self.done_bytes - shown
            display.advance(new)
        display.end()
        self.ended = True
        missing = [*filter(None, [self.unsent]), *(name for name, _ in self._changed())]
        return f"{listed(missing)} ({self.fault or 'there was no time'})" if missing else ""

    def _send_all(self) -> None:
        """Send checkpoints as they come, and small files that changed between and after them."""
        while not self.ended:
            with self.change:
                self.change.wait_for(lambda: self.waiting or self.closing, BEAT_SECONDS)
                taken, self.waiting, closing = self.waiting, None, self.closing
            if taken is None:
                self._tried(self._send_files)
                if closing:  # not set since: a checkpoint may have come meanwhile
                    return
                continue
            is_sent = self._tried(lambda: self._send(*taken))  # noqa: B023 - called at once
            with self.change:
                if not is_sent and not (self.closing or self.ended):
                    self.change.wait(BEAT_SECONDS)
                    if self.waiting is None:
                        self.waiting = taken
                        continue
            shutil.rmtree(taken[1], ignore_errors=True)
            if closing and not is_sent:  # a try takes a minute, and another would fail as well
                return

    def _send(self, name: str, links: Path) -> None:
        """Send a checkpoint, unless it is there; then remove there what is removed here."""
        self._send_files()  # its metrics have to reach to it
        there, manifest = self.place.sizes(below=True), f"checkpoints/{name}/{MANIFEST}"
        steps = {entry.split("/")[1] for entry in there if entry.startswith("checkpoints/step-")}
        sound = {step for step in steps if f"checkpoints/{step}/{MANIFEST}" in there}
        if (newest := max(sound, default="")) > name:
            self.ended = True
            message = f"another process has sent {newest} to {self.address} meanwhile"
            raise CannotWriteError(message, help=_ANOTHER)
        if self.place.read(manifest, LARGEST_BYTES) != read_bytes(links / MANIFEST, LARGEST_BYTES):
            if name in steps:
                self._remove(name)
            for path in sorted(links.iterdir(), key=lambda path: path.name == MANIFEST):
                self._put(path, f"checkpoints/{name}/{path.name}")
        with self.change:
            self.unsent = "" if self.unsent == name else self.unsent
        stay = {checkpoint_name(step) for step in self.stay}
        older = sorted(sound - {name} - stay)
        surplus = 0 if self.keep == "all" else max(0, len(older) + 1 - self.keep)
        for step in steps - {name, *(stay & sound), *older[surplus:]}:
            self._remove(step)

    def _remove(self, step: str) -> None:
        self.place.remove(f"checkpoints/{step}/{MANIFEST}")
        self.place.remove(f"checkpoints/{step}")

    def _put(self, path: Path, name: str) -> None:
        self.place.send(path, name)
        self.done_bytes += path.stat().st_size

    def _changed(self) -> list[tuple[str, tuple[int, int]]]:
        """The small files that are not there as they are here: program first, digests last."""
        here, run = dict[str, tuple[int, int]](), self.folder.path
        for path in chain(run.glob("*"), *((run / name).rglob("*") for name in FOLDERS)):
            name = path.relative_to(run).as_posix()
            if belongs(name) and is_file(path):
                with suppress(FileNotFoundError):
                    here[name] = path.stat().st_mtime_ns, path.stat().st_size
        changed = [(name, age) for name, age in here.items() if self.sent.get(name) != age]
        gone = [(name, (0, 0)) for name in [*self.sent] if name not in here]
        return sorted(changed + gone, key=lambda pair: (pair[0] == DIGESTS, pair[0] != RESOLVED))

    def _send_files(self) -> None:
        """Send the small files that changed; no digests are there before what they are of."""
        changed = self._changed() if self.folder.holds_a_run else []
        if any(name == DIGESTS for name, _ in changed):
            self.place.remove(DIGESTS)
        for name, age in changed:
            if is_file(self.folder.path / name):
                self._put(self.folder.path / name, name)
                self.sent[name] = age
            else:
                self.place.remove(name)
                self.sent.pop(name, None)

    def _tried(self, work: Callable[[], None]) -> bool:
        """Do a piece of work; note the first failure of several."""
        before = self.fault
        try:
            work()
            self.fault = ""
        except (BertcError, OSError) as error:
            self.fault = error.message if isinstance(error, BertcError) else reason(error)
            if not before:
                self.display.note(f"warning: {self.fault}; training goes on")
        return not self.fault


def _link(source: str, target: str) -> None:
    """Link a file, or copy it where the disk has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
