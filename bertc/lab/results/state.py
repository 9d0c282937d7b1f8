"""The state of a run, and when it last gave a sign of life. Loads no torch."""

import platform
import time
from typing import Literal

from bertc import Resolved
from bertc.lab_api import RunFolder

RunState = Literal["training", "finished", "failed", "stopped"]
SILENCE_SECONDS = 900.0
"""Seconds without a new figure after which a run on another machine counts as stopped."""


def last_sign(run: RunFolder) -> float:
    """The Unix time at which the run last wrote a figure, was taken up, or was made."""
    files = (run.metrics, run.attempts, run.resolved)
    return max((path.stat().st_mtime for path in files if path.exists()), default=0.0)


def state_of(run: RunFolder, resolved: Resolved) -> RunState:
    """The state of the run of a program; on another machine, by how new its figures are."""
    if run.is_finished(resolved):
        return "finished"
    if run.in_use:
        return "training"
    if run.failure.exists():
        return "failed"
    begun = run.read_attempts()
    elsewhere = bool(begun) and begun[-1].host != platform.node()
    is_new = time.time() - last_sign(run) < SILENCE_SECONDS
    return "training" if elsewhere and is_new else "stopped"
