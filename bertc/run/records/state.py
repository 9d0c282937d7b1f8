"""The state of a run, as its folder shows it. Loads no torch."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from bertc.base.diagnostics import BertcError, StoppedError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_taken
from bertc.ir.program.resolved import Resolved
from bertc.run.records import attempts
from bertc.run.records.folder import RunFolder

RunState = Literal["training", "finished", "failed", "stopped"]
SILENCE_SECONDS = 900.0
"""Seconds without a new figure after which a run on another machine counts as stopped."""


def state_of(folder: RunFolder, resolved: Resolved) -> RunState:
    """The state of a run.

    Whether a process trains it is known on its own machine alone. From another one it is training
    while it writes figures.

    Raises:
        DataError: if its attempts are damaged.
    """
    if folder.is_finished(resolved):
        return "finished"
    if folder.in_use:
        return "training"
    if is_taken(folder.failure):
        return "failed"
    silent_seconds = time.time() - last_sign(folder)
    return "training" if _elsewhere(folder) and silent_seconds < SILENCE_SECONDS else "stopped"


def last_sign(folder: RunFolder) -> float:
    """The Unix time at which the run last wrote a figure, was taken up, or was made."""
    files = (folder.metrics, folder.attempts, folder.resolved)
    return max((path.stat().st_mtime for path in files if is_taken(path)), default=0.0)


def _elsewhere(folder: RunFolder) -> bool:
    begun = attempts.read(folder.attempts)
    return bool(begun) and begun[-1].host != platform.node()


@contextmanager
def noting_failure(folder: RunFolder) -> Iterator[None]:
    """Leave the reason in the folder if an error ends the run.

    Raises:
        CannotWriteError: instead of an error after the folder was removed.
    """
    try:
        yield
    except StoppedError:
        raise
    except Exception as error:
        folder.refuse_removed()
        with suppress(OSError, BertcError):
            durable.replace(folder.failure, f"{error}\n".encode(errors="replace"))
        raise
