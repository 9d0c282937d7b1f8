"""SIGTERM and Ctrl-C: a flag that the run reads where it can stop without loss."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any, ClassVar, Self

from bertc.diagnostics import StoppedError
from bertc.host.stuck import Stuck


class InterruptedRunError(StoppedError):
    """The run was stopped by Ctrl-C and can be resumed."""

    exit_code: ClassVar[int] = 128 + signal.SIGINT


class TerminatedRunError(StoppedError):
    """The run was stopped by SIGTERM and can be resumed."""

    exit_code: ClassVar[int] = 128 + signal.SIGTERM


class _LeaveNow(BaseException):
    """Raised from the signal handler, past every ``except Exception`` of the code it interrupts."""


class Stop:
    """While entered, SIGTERM and SIGINT set a flag; a second one ends the process at once.

    A ``shared`` stop is that of one of several processes: the flag counts when all have agreed on
    it, and a second signal is the launcher's repeating the first. Unless ``quiet``, the first is
    acknowledged on the standard error.
    """

    SIGNALS: ClassVar[tuple[int, ...]] = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, shared: bool = False, quiet: bool = True) -> None:
        self.received = 0
        self._shared, self._quiet, self._agreed = shared, quiet, 0
        self._leaving_is_safe = False
        self._previous: dict[int, Any] = {}
        self._stuck: Stuck | None = None

    def __enter__(self) -> Self:
        # Only the main thread may install handlers; elsewhere signals are the host program's.
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._handle) for s in self.SIGNALS}
            self._stuck = Stuck() if self._shared else None
        return self

    def __exit__(self, *_: object) -> None:
        if self._stuck:
            self._stuck.close()
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def step(self) -> AbstractContextManager[None]:
        """Inside, a signal ends one of several processes though it waits for ever for another."""
        return self._stuck.step() if self._stuck else nullcontext()

    @property
    def requested(self) -> bool:
        """Whether someone asked the run to stop."""
        return bool(self._agreed)

    def agree(self, number: int) -> None:
        """Stop, at the next check, as if this process had received the signal."""
        self._agreed = number

    def check(self) -> None:
        """Stop here if someone asked for it.

        Raises:
            StoppedError: with the exit code of the signal.
        """
        if self._agreed:
            raise self.error("stopped")

    def check_alone(self) -> None:
        """As ``check`` where the other processes only wait for this one: they need not agree.

        Raises:
            StoppedError: with the exit code of the signal.
        """
        self._agreed = self._agreed or self.received
        self.check()

    def error(self, message: str) -> StoppedError:
        """The error that ends the run with the exit code of the signal."""
        kind = InterruptedRunError if self._agreed == signal.SIGINT else TerminatedRunError
        return kind(message, help="--resume goes on from here")

    @contextmanager
    def immediately(self) -> Iterator[None]:
        """Inside, a signal ends what runs: for long calls that cannot read the flag.

        Only where nothing would be lost. Compiling a model is such a call.

        Raises:
            StoppedError: with the exit code of the signal.
        """
        self.check()
        self._leaving_is_safe = True
        try:
            yield
        except _LeaveNow:
            raise self.error("stopped") from None
        finally:
            self._leaving_is_safe = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and not self._shared:
            os._exit(128 + number)
        if not self._quiet and not self.received:
            # Past the streams of Python, one of which may be what this interrupts.
            os.write(2, b"stopping\n" if self._shared else b"stopping; once more ends at once\n")
        self.received = number
        if not self._shared or self._leaving_is_safe:
            self._agreed = number
        if self._leaving_is_safe:
            raise _LeaveNow
