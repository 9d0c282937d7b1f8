"""Folders at addresses: on this machine, or in any store that fsspec knows."""

import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar

from bertc.base.diagnostics import BertcError, CannotWriteError, LostStoreError, MissingInputError
from bertc.base.diagnostics.render import SECRET, for_terminal
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, names_in, real_path, user_path
from bertc.base.storage.plain_file import read_bytes
from bertc.base.storage.stores import CREDENTIALS, MISWRITTEN, open_store, send

AnswerT = TypeVar("AnswerT")
OtherT = TypeVar("OtherT")
Access = Literal["read", "write"]
TRIES = 7
FIRST_WAIT_SECONDS = 1.0  # before the second try; twice as long before each later one
WRONG = "its content is not what the manifest says"
UNANSWERED = "check the address, the network, and the store's endpoint"
LONGEST_SECONDS = 90.0
"""Most seconds from the first failure to the last try, of all readers of a folder together."""
LATER = "what was done before is intact; try again when the store answers well"
NO_BUCKET = re.compile("(bucket|container) does not exist")
VERSIONS = ("ETag", "etag", "md5Hash", "blob_id", "LastModified", "mtime", "created")
"""Names in stores of the version of a file, the surest first."""


def _warn(message: str, *values: str) -> None:
    import logging  # 7 million instructions at each start

    logging.getLogger(__name__).warning(message, *values)


@dataclass(eq=False)
class FolderAt:
    """A folder at an address; in stores a file is there whole or not at all.

    A store that never ``answered`` and refuses a connection is not tried again; ``failures`` are
    the times of tries since its last answer.
    """

    address: str
    answered: bool = field(default=False, init=False, repr=False)
    failures: list[float] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse an address with secrets in it, or one that would name a folder here by a slip."""
        if SECRET.search(self.address):
            raise MissingInputError("an address has no keys, passwords or signatures", CREDENTIALS)
        if match := MISWRITTEN.match(self.address):
            meant = f"{match[1]}://{self.address[match.end() :]}"
            raise MissingInputError(f"{self.address} is no address", f"did you mean {meant}?")

    @cached_property
    def folder(self) -> Path | None:
        """The folder, if it is on this machine."""
        name = self.address.removeprefix("file://")
        return None if "://" in name else user_path(name)

    def read(self, name: str, most: int, is_whole: Callable[[bytes], bool] = bool) -> bytes | None:
        """The content of a file of at most ``most`` bytes, whole; None if it is not there."""
        if self.folder:
            path = self.folder / name
            return read_bytes(path, most) if is_file(path) else None

        def content() -> bytes:
            raw = bytes(self._files.cat_file(self._at(name)))
            if not is_whole(raw):
                raise OSError(WRONG)
            return raw

        return self._if_there(content, name, None)

    def state(self, name: str) -> str:
        """Text that is another one when a file has changed; empty if it is not there."""
        if self.folder:
            path = real_path(self.folder / name)
            facts = path.stat() if is_file(path) else None
            return f"{path} {facts.st_mtime_ns} {facts.st_size}" if facts else ""
        stored = self._at(name)
        return self._if_there(lambda: f"{self.address} {self._files.ukey(stored)}", name, "")

    def write(self, name: str, content: bytes | Path) -> None:
        """Put content, or a file's; a reader finds the old content or the new, never a part."""
        if not self.folder:
            self._tried(lambda: send(self._files, content, self._at(name)), name, "write")
        elif isinstance(content, Path):
            with _replacing(self.folder / name, content.stat().st_size) as aside:
                shutil.copyfile(content, aside)
                durable.sync(aside)
        else:
            with _replacing(self.folder / name, len(content)) as aside:
                durable.write(aside, content)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it, if it is there."""

        def remove() -> None:
            with suppress(FileNotFoundError):
                self._files.rm(self._at(name), recursive=True)

        if self.folder:
            durable.remove(self.folder / name)
        else:
            self._tried(remove, name, "write")

    def get(self, name: str, path: Path, digest: str = "") -> None:
        """Copy a file, in a store with that sha256 if it is known, to a path."""
        if self.folder:
            shutil.copyfile(self.folder / name, path)
            return

        def copy() -> None:
            self._files.get_file(self._at(name), str(path))
            if digest and durable.digest(path) != digest:
                raise OSError(WRONG)

        self._tried(copy, name)

    def sizes(self, name: str = "") -> dict[str, int]:
        """The sizes in bytes of the files in a folder of the place, by name."""
        if self.folder:
            paths = filter(is_file, (self.folder / name).glob("*"))
            return {path.name: path.stat().st_size for path in paths}
        at = self._at(name)
        entries: list[Any] = self._if_there(lambda: self._files.ls(at, detail=True), name, [])
        start = len(at.strip("/")) + 1
        return {entry["name"].strip("/")[start:]: entry["size"] or 0 for entry in entries}

    def names(self) -> set[str]:
        """The names in the place, but for hidden ones; none if it is not there."""
        names = names_in(self.folder, None) if self.folder else self.sizes()
        return {name for name in names if not name.startswith(".")}

    def read_range(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to ``end`` of a store's file, which the address names."""

        def read() -> bytes:
            raw = bytes(self._files.cat_file(self.root, start=start, end=end))
            if len(raw) > end - start:
                message = f"cannot read {self.address}: its server sends no ranges of a file"
                raise MissingInputError(message, "copy the file here, or to a store")
            if len(raw) < end - start:
                raise OSError(f"{len(raw):,} bytes came of {end - start:,}")
            return raw

        try:
            return self._tried(read, "")
        except FileNotFoundError as error:
            raise self._failed("", "read", error, LATER) from None

    def matching(self) -> list[tuple[str, int, str]]:
        """Address, size and version of each file of a store that the address matches."""
        scheme, _, rest = self.address.partition("://")
        pattern = "*" in rest or (("?" in rest or "[" in rest) and not scheme.startswith("http"))

        def listed() -> list[dict[str, Any]]:
            if not pattern:
                return [self._files.info(self.root)]
            return list(self._files.glob(self.root, detail=True).values())

        files = list[tuple[str, int, str]]()
        for entry in self._if_there(listed, "", []):
            if entry["type"] == "file":
                version = next((entry[key] for key in VERSIONS if entry.get(key)), "")
                name = str(entry["name"])
                address = name if "://" in name else f"{scheme}://{name}"
                files.append((address, int(entry["size"] or 0), str(version)))
        return files

    def _at(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    @cached_property
    def root(self) -> str:
        """Its path in its store."""
        return str(self._opened[1]).rstrip("/")

    @property
    def _files(self) -> Any:
        return self._opened[0]

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        return open_store(self.address)

    def _if_there(self, work: Callable[[], AnswerT], name: str, absent: OtherT) -> AnswerT | OtherT:
        try:
            return self._tried(work, name)
        except FileNotFoundError:
            return absent

    def _tried(self, work: Callable[[], AnswerT], name: str, access: Access = "read") -> AnswerT:
        """The result of ``work``, tried again where a store does not answer as it should."""
        end = math.inf
        for nth in range(1, TRIES + 1):
            try:
                result = work()
                self._note_answer()
                return result
            except BertcError:
                raise
            except Exception as caught:
                cause = caught.__cause__  # of HTTP
                error = cause if cause and "Connect" in type(cause).__name__ else caught
                if isinstance(error, FileNotFoundError):
                    self._note_answer()
                    if access == "read" and not NO_BUCKET.search(str(error)):
                        raise
                if remedy := self._remedy(error, access):
                    raise self._failed(name, access, error, remedy) from None
                seconds = FIRST_WAIT_SECONDS * 2 ** (nth - 1)
                end = min(end, self._note_failure(name, access, error))
                if nth == TRIES or time.monotonic() + seconds > end:
                    passed = time.monotonic() - end + LONGEST_SECONDS
                    tries = f"{max(nth, len(self.failures))} tries in {passed:.0f} s, "
                    raise self._failed(name, access, error, LATER, tries) from None
                time.sleep(seconds)
        raise AssertionError

    def _remedy(self, error: BaseException, access: Access) -> str:
        """The help for an error that another try does not end; empty if one may."""
        name = type(error).__name__
        if isinstance(error, FileNotFoundError):
            return "make the bucket first" if access == "write" else "check the name of the bucket"
        if isinstance(error, NotImplementedError):
            return "an address that can be written"
        if isinstance(error, PermissionError) or "Credential" in name:
            return CREDENTIALS
        unreached = isinstance(error, ConnectionError) or "Connect" in name
        return UNANSWERED if unreached and not self.answered else ""

    def _note_answer(self) -> None:
        if self.failures:
            _warn("%s answers again", for_terminal(self.address))
        self.answered, self.failures = True, []

    def _note_failure(self, name: str, access: Access, error: BaseException) -> float:
        """The time at which the store is given up; the first failure is reported."""
        self.answered, now, failures = True, time.monotonic(), self.failures
        if not failures or now > failures[-1] + LONGEST_SECONDS:
            self.failures = failures = []
            message = for_terminal(self._failed(name, access, error, LATER).message)
            end = time.strftime("%X", time.localtime(time.time() + LONGEST_SECONDS))
            _warn("warning: %s; it is tried again until %s", message, end)
        failures.append(now)
        return failures[0] + LONGEST_SECONDS

    def _failed(
        self, name: str, access: Access, error: BaseException, remedy: str, tries: str = ""
    ) -> BertcError:
        missing = LostStoreError if tries and str(error) != WRONG else MissingInputError
        # An error of a store may name no secrets, but be long, or be a slip of its library.
        text = "" if isinstance(error, AttributeError) else str(error)
        reason = (text or "no whole answer came in time").splitlines()[0][:200]
        kind = CannotWriteError if access == "write" else missing
        address = f"{self.address}/{name}" if name else self.address
        return kind(f"cannot {access} {address}: {tries}{reason}", remedy)


@contextmanager
def _replacing(target: Path, size: int) -> Iterator[Path]:
    """A path for the block to fill with ``size`` bytes; the file is then put at ``target``."""
    with durable.writing(target, size, "choose another address"):
        durable.make_folder(target.parent)
        # Several processes may put the same file at once.
        with TemporaryDirectory(prefix=".tmp-", dir=target.parent) as aside:
            yield Path(aside) / target.name
            os.replace(Path(aside) / target.name, target)
        durable.sync(target.parent)
