"""A process that was asked to stop, but waits for a peer that is gone.

The wait may be inside a library (NCCL, a copy from the device), where no Python handler runs.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from bertc.diagnostics import StoppedError

Work = Literal["step", "evaluation", "save"]
"""Collective work, in which each process waits for the others."""
PATIENCE_SECONDS = 20.0
"""Seconds that collective work may last after a signal, at least.

torchrun kills after 30, ``--nproc`` later.
"""
TIMES = 3
"""Factor on the longest work of a kind so far, for the time that it may last after a signal."""
GLANCE_SECONDS = 0.5


class Stuck:
    """Ends this process if a step, evaluation or save does not end after a signal.

    Made in the main thread, which gets the signals. The run resumes from its last checkpoint.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._work: Work = "step"
        self._longest = dict[Work, float]()
        self._reader, writer = socket.socketpair()
        writer.setblocking(False)
        self._writer = writer  # closed with this object
        self._before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def collective(self, work: Work) -> Iterator[None]:
        """Mark collective work; a block inside another counts as part of it."""
        if self._began is not None:
            yield
            return
        began = time.monotonic()
        self._work, self._began = work, began
        try:
            yield
        finally:
            self._began = None
            self._longest[work] = max(self._longest.get(work, 0.0), time.monotonic() - began)

    def close(self) -> None:
        """Stop listening for signals."""
        signal.set_wakeup_fd(self._before)
        self._writer.close()

    def _watch(self) -> None:
        if not self._reader.recv(1):  # closed
            return
        signalled = time.monotonic()
        while True:
            time.sleep(GLANCE_SECONDS)
            began, longest = self._began, self._longest.get(self._work)
            if began is None or longest is None:  # unknown before one of the kind has ended
                continue
            allowed = max(PATIENCE_SECONDS, TIMES * longest)
            if time.monotonic() - max(began, signalled) > allowed:
                os._exit(StoppedError.exit_code)
