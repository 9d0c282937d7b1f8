"""Ends from outside: signals, as a flag that the run checks between steps; a launcher's death."""

import os
import signal
import threading
import time
from types import FrameType
from typing import Any, ClassVar, Self

from bertc.base.diagnostics import StoppedError

RESUME = "the same command with --resume goes on from here"
AGAIN = "the same command begins again"
LAUNCHER = "BERTC_LAUNCHER"
"""Environment variable with the process id of the launcher."""
GLANCE_SECONDS = 0.5


class InterruptedRunError(StoppedError):
    """The run was stopped by Ctrl-C and can be resumed."""

    exit_code: ClassVar[int] = 128 + signal.SIGINT


class TerminatedRunError(StoppedError):
    """The run was stopped by SIGTERM, or its terminal was closed; it can be resumed."""

    exit_code: ClassVar[int] = 128 + signal.SIGTERM


class Stop:
    """Handlers for signals that end processes: the first sets a flag, a second one exits.

    With ``shared``, for one of several processes, the flag counts when all have agreed on it, and a
    second signal is ignored: the launcher repeats the first. Unless ``quiet``, the first is
    acknowledged on stderr. ``way_on`` is the help of the error that ends what was interrupted; what
    saves nothing to resume is ended wherever the main thread is, which may wait for a store.
    """

    SIGNALS: ClassVar[tuple[int, ...]] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self, shared: bool = False, quiet: bool = True, way_on: str = RESUME) -> None:
        self.received, self._way_on = 0, way_on
        self._shared, self._quiet, self._agreed = shared, quiet, 0
        self._previous: dict[int, Any] = {}
        self._terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    def __enter__(self) -> Self:
        # Only the main thread may install handlers; elsewhere signals are the host program's.
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def requested(self) -> bool:
        """True if the run was asked to stop."""
        return bool(self._agreed)

    def agree(self, number: int) -> None:
        """Stop at the next check, as if this process had received the signal."""
        self._agreed = number

    def check(self) -> None:
        """Raise if the run was asked to stop."""
        if self._agreed:
            raise self.error("stopped")

    def check_alone(self) -> None:
        """Raise if this process was asked to stop, without asking the others, which wait for it."""
        self._agreed = self._agreed or self.received
        self.check()

    def error(self, message: str) -> StoppedError:
        """The error with the exit code of the signal."""
        kind = InterruptedRunError if self._agreed == signal.SIGINT else TerminatedRunError
        return kind(message, help=self._way_on)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:  # what is written to a closed terminal fails
            with open(os.devnull, "r+b") as nowhere:
                for descriptor in self._terminals:
                    os.dup2(nowhere.fileno(), descriptor)
        if self.received and not self._shared:
            os._exit(128 + number)
        if not self._quiet and not self.received:
            # os.write: a signal handler must not use Python's buffered streams.
            os.write(2, b"stopping\n" if self._shared else b"stopping; once more ends at once\n")
        self.received = number
        if not self._shared:
            self._agreed = number
        if self._way_on != RESUME:
            raise self.error("stopped")


def is_launched() -> bool:
    """True if ``--nproc`` started this process; its launcher then reports how the run ended."""
    return LAUNCHER in os.environ


def end_with_launcher() -> None:
    """End this process at once, without saving, when the launcher that started it is gone."""
    if is_launched():
        threading.Thread(target=_watch, args=(int(os.environ[LAUNCHER]),), daemon=True).start()


def _watch(launcher: int) -> None:
    # On every Unix a process whose parent has ended gets another parent. A later process with the
    # launcher's id is no danger: this process would have to be its child.
    while os.getppid() == launcher:
        time.sleep(GLANCE_SECONDS)
    os._exit(StoppedError.exit_code)
