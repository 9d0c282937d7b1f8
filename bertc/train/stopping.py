"""SIGTERM and Ctrl-C: a flag that the run reads where it can stop without loss."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar, Self

from bertc.diagnostics import StoppedError

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class InterruptedRunError(StoppedError):
    """The run was stopped by Ctrl-C and can be resumed."""

    exit_code: ClassVar[int] = 128 + signal.SIGINT


class TerminatedRunError(StoppedError):
    """The run was stopped by SIGTERM and can be resumed."""

    exit_code: ClassVar[int] = 128 + signal.SIGTERM


class _LeaveNow(BaseException):
    """Raised from the signal handler, past every ``except Exception`` of the code it interrupts."""


class Stop:
    """While entered, SIGTERM and SIGINT set a flag; a second one ends the process at once."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._leaving_is_safe = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Only the main thread may install handlers; elsewhere signals are the host program's.
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._handle) for s in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def requested(self) -> bool:
        """Whether someone asked the run to stop."""
        return self._signal is not None

    def check(self) -> None:
        """Stop here if someone asked for it.

        Raises:
            StoppedError: with the exit code of the signal.
        """
        if self._signal is not None:
            raise self.error("stopped")

    def error(self, message: str) -> StoppedError:
        """The error that ends the run with the exit code of the signal."""
        kind = InterruptedRunError if self._signal == signal.SIGINT else TerminatedRunError
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
        if self._signal is not None:
            os._exit(128 + number)
        self._signal = number
        if self._leaving_is_safe:
            raise _LeaveNow
