"""What a process of ``--nproc`` does when its launcher is killed: it ends, and leaves no trace."""

import os
import threading
import time

from bertc.diagnostics import StoppedError

LAUNCHER = "BERTC_LAUNCHER"
"""The environment's name for the process number of the launcher."""
GLANCE_SECONDS = 0.5


def launched() -> bool:
    """Whether ``--nproc`` started this process: its launcher tells what became of the run."""
    return LAUNCHER in os.environ


def end_with_launcher() -> None:
    """From now on, end as soon as the launcher has ended, if one started this process.

    The end is sudden, as that of the launcher was: the run goes on from its last checkpoint.
    """
    if launched():
        threading.Thread(target=_watch, args=(int(os.environ[LAUNCHER]),), daemon=True).start()


def _watch(launcher: int) -> None:
    # A process whose parent has ended gets another one, on every Unix. No number of a later process
    # can be mistaken for the launcher's: this process would have to be its child.
    while os.getppid() == launcher:
        time.sleep(GLANCE_SECONDS)
    os._exit(StoppedError.exit_code)
