"""A process that was asked to stop while it waits for another one that is gone.

Such a wait may be within a library (NCCL, a copy from the device), where no handler of Python runs.
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
"""How long a step may last after a signal, at least: torchrun kills after 30, ``--nproc`` later."""
STEPS = 3
"""Of the longest step so far, how many one may take."""
GLANCE_SECONDS = 0.5


class Stuck:
    """Ends this process if a signal finds it in a step that then does not end; nothing is saved.

    Made in the main thread, of which it hears signals; the last checkpoint is what is left.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._longest = 0.0
        self._heard, heard = socket.socketpair()
        heard.setblocking(False)
        self._told = heard  # is closed with this object
        self._before = signal.set_wakeup_fd(heard.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Inside, the process may wait for others."""
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._longest = max(self._longest, time.monotonic() - self._began)
            self._began = None

    def close(self) -> None:
        """Hear no more signals."""
        signal.set_wakeup_fd(self._before)
        self._told.close()

    def _watch(self) -> None:
        if not self._heard.recv(1):  # closed
            return
        asked = time.monotonic()
        while True:
            time.sleep(GLANCE_SECONDS)
            began, allowed = self._began, max(PATIENCE_SECONDS, STEPS * self._longest)
            # How long a step takes is not known before one has ended.
            if began and self._longest and time.monotonic() - max(began, asked) > allowed:
                os._exit(StoppedError.exit_code)
