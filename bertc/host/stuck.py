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

from bertc.diagnostics import StoppedError

PATIENCE_SECONDS = 20.0
"""Seconds that a step may last after a signal, at least.

torchrun kills after 30, ``--nproc`` later.
"""
STEPS = 3
"""Factor on the longest step so far, for the time that a step may last after a signal."""
GLANCE_SECONDS = 0.5


class Stuck:
    """Ends this process if a step does not end after a signal; nothing is saved.

    Made in the main thread, which gets the signals. The run resumes from its last checkpoint.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._longest = 0.0
        self._reader, writer = socket.socketpair()
        writer.setblocking(False)
        self._writer = writer  # closed with this object
        self._before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Mark a step, in which this process may wait for others."""
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._longest = max(self._longest, time.monotonic() - self._began)
            self._began = None

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
            began, allowed = self._began, max(PATIENCE_SECONDS, STEPS * self._longest)
            # The length of a step is unknown before one has ended.
            if began and self._longest and time.monotonic() - max(began, signalled) > allowed:
                os._exit(StoppedError.exit_code)
