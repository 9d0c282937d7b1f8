"""A run as trackers know it, and the packages that they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bertc.diagnostics import MissingInputError
from bertc.runs.attempts import Attempt
from bertc.runs.figures import LineFigures

if TYPE_CHECKING:
    from bertc.ir.program.run import Tracker

DEFAULT_PROJECT = "bertc"
"""The project, or experiment, of runs where the tracker's own variables name none."""


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers know it: by an id that stays."""

    folder: Path
    id: str

    @property
    def settings(self) -> Mapping[str, str]:
        """Its settings as texts, read from its program."""
        # Here and not above: most of the time that a tracker takes would be loading the program.
        from bertc.runs.folder import RunFolder
        from bertc.runs.groups import settings_texts

        return settings_texts(RunFolder(self.folder).read_resolved())

    @property
    def name(self) -> str:
        """The name that is shown: that of its folder."""
        return self.folder.resolve().name


class Recorder(Protocol):
    """A run in a tracker, open for more figures; any call may raise anything."""

    place: str
    """Its address, or the command that shows it."""

    def record(self, points: Sequence[LineFigures], times: Sequence[float]) -> None:
        """Take points with the Unix time of each; when it returns, the tracker keeps them."""

    def close(self) -> None:
        """End the connection; the run may be opened again."""


def refuse_missing(trackers: Sequence[Tracker]) -> None:
    """Refuse trackers whose package is not installed, without loading any.

    Raises:
        MissingInputError: naming the first, and how it is installed.
    """
    for tracker in trackers:
        if find_spec(tracker) is None:
            raise _missing(tracker)


def tracker_package(name: str, tracker: Tracker) -> Any:
    """Import a module of a tracker's package.

    Raises:
        MissingInputError: if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise _missing(tracker) from None


def _missing(tracker: Tracker) -> MissingInputError:
    return MissingInputError(
        f"{tracker} is not installed, which log={tracker} needs",
        help=f"pip install -c constraints.txt -e '.[{tracker}]'",
    )


def times_of(
    points: Sequence[LineFigures], attempts: Sequence[Attempt], first: int = 0
) -> list[float]:
    """The Unix time of each point from ``first`` on: when its attempt began, and its seconds."""
    steps = [point.step for point in points]
    begun = [(0, 0.0, 0.0)]
    for attempt in attempts:
        before = bisect_left(steps, attempt.step + 1) - 1
        seconds = points[before].seconds if before >= 0 and attempt.step else 0.0
        begun.append((attempt.step, attempt.time, seconds))
    found = []
    for point in points[first:]:
        _, time, seconds = next(b for b in reversed(begun) if b[0] < point.step or not b[0])
        found.append(time + max(0.0, point.seconds - seconds))
    return found
