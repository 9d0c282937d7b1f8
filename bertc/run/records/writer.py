"""``writer.json`` at the address of a mirror: the process that sends a run there now."""

import json
import os
import platform
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bertc.base.diagnostics import StoppedError
from bertc.base.storage.json_file import parse_json
from bertc.base.storage.place import FolderAt

WRITER = "writer.json"
BEAT_SECONDS = 30.0
"""Seconds between two signs of the process that sends."""
LOST_SECONDS = 90.0
"""Seconds without a sign after which another machine may send."""
_MOST_BYTES = 2**16


@dataclass(frozen=True)
class Writer:
    """This process, as the one that sends to a place."""

    place: FolderAt
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def await_silence(self, note: Callable[[str], None], check: Callable[[], None]) -> None:
        """Refuse a place to which another process sends; wait for its sign if one may."""
        before, end = self._there(), time.monotonic() + LOST_SECONDS
        if before is None or _is_gone(before):
            return
        note(
            f"{before.get('host')} sent this run to {self.place.address} and has not ended that: "
            f"waiting {LOST_SECONDS:.0f} s for a sign of it"
        )
        while time.monotonic() < end:
            check()
            time.sleep(LOST_SECONDS / 30)
            if (now := self._there()) != before:
                if now:
                    raise StoppedError(
                        f"{now.get('host')} is sending this run to {self.place.address}",
                        help="stop it there, or name another --mirror",
                    )
                return

    def sign(self) -> None:
        """Give a sign of this process."""
        sign = {"host": platform.node(), "pid": os.getpid(), "token": self.token}
        self.place.write(WRITER, json.dumps({**sign, "time": time.time()}).encode())

    def other(self) -> str:
        """The host of another process that sends by now; empty without one."""
        there = self._there()
        return str(there.get("host")) if there and there.get("token") != self.token else ""

    def end(self) -> None:
        """Let others send."""
        self.place.remove(WRITER)

    def _there(self) -> dict[str, Any] | None:
        with suppress(ValueError):
            if content := self.place.read(WRITER, _MOST_BYTES):
                return parse_json(content, _MOST_BYTES)
        return None


def _is_gone(writer: dict[str, Any]) -> bool:
    """True if the process was one of this machine and has ended."""
    pid = writer.get("pid")
    if writer.get("host") != platform.node() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return pid == os.getpid()
