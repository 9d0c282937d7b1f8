"""A watch on the parent: processes of ``--nproc`` end if their launcher is killed."""

import os
import threading
import time

from bertc.base.diagnostics import StoppedError

LAUNCHER = "BERTC_LAUNCHER"
"""Environment variable with the process id of the launcher."""
GLANCE_SECONDS = 0.5


def launched() -> bool:
    """True if ``--nproc`` started this process; its launcher then reports how the run ended."""
    return LAUNCHER in os.environ


def end_with_launcher() -> None:
    """Watch the launcher, if one started this process, and end as soon as it is gone.

    The process ends at once, without saving: the run resumes from its last checkpoint.
    """
    if launched():
        threading.Thread(target=_watch, args=(int(os.environ[LAUNCHER]),), daemon=True).start()


def _watch(launcher: int) -> None:
    # On every Unix a process whose parent has ended gets another parent. A later process with the
    # launcher's id is no danger: this process would have to be its child.
    while os.getppid() == launcher:
        time.sleep(GLANCE_SECONDS)
    os._exit(StoppedError.exit_code)
