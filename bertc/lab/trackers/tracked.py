"""A run as a tracker sees it, and what a tracker has to offer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bertc.lab.results.figures import LineFigures

DEFAULT_PROJECT = "bertc"
"""The project, or experiment, of runs where the tracker's own variables name none."""


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers know it: by an id that stays, taken up at ``step``."""

    folder: Path
    id: str
    settings: Mapping[str, str]
    step: int

    @property
    def name(self) -> str:
        """The name that is shown: that of its folder."""
        return self.folder.resolve().name


class Sink(Protocol):
    """A run in a tracker; any call may raise anything."""

    def record(self, point: LineFigures, time: float) -> None:
        """Take the figures of a line of metrics, measured at a Unix time."""

    def close(self) -> None:
        """End the connection; the run may be opened again."""
