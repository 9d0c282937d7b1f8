"""``bertc runs sync``: sends a tracker what it was not sent yet. Loads no torch."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never, get_args

from pydantic import Field, TypeAdapter, ValidationError

from bertc.diagnostics import (
    BertcError,
    CannotWriteError,
    DataError,
    StoppedError,
    UsageError,
    escaped,
)
from bertc.runs.figures import LineFigures
from bertc.runs.following import Following
from bertc.runs.lines import FINITE, Count
from bertc.storage import durable
from bertc.storage.paths import is_taken
from bertc.storage.plain_file import read_bytes
from bertc.trackers.tracker import Recorder, TrackedRun, refuse_missing, times_of

if TYPE_CHECKING:  # the program's classes take longer to load than all else here
    from bertc.ir.program.run import Tracker

POINTS_AT_ONCE = 500
"""Points after which it is noted that they were sent."""
LARGEST_NOTE_BYTES = 2**16


@dataclass(frozen=True)
class Sent:
    """The last point that a tracker got: number ``points`` at ``step``, after all before it.

    What a resumed run does once more is not sent again, since it is the same. So is the ``id`` by
    which the tracker knows the run.
    """

    __pydantic_config__ = FINITE

    id: Annotated[str, Field(pattern="[0-9a-f]{16}")]
    step: Count = 0
    points: Count = 0

    def beyond(self, points: Sequence[LineFigures]) -> Sequence[LineFigures]:
        """The points that were not sent."""
        at_step = 0
        for index, point in enumerate(points):
            at_step += point.step == self.step
            if point.step > self.step or at_step > self.points:
                return points[index:]
        return ()

    def after(self, points: Sequence[LineFigures]) -> Sent:
        """The same once these were sent."""
        step = points[-1].step
        number = sum(point.step == step for point in points)
        return Sent(self.id, step, number + self.points * (step == self.step))


_SENT = TypeAdapter(Sent)


class Delivery:
    """The figures of a run on their way to one tracker, which is opened when there are any."""

    def __init__(self, folder: Path, tracker: Tracker) -> None:
        """Claim the run's place at the tracker for this process.

        Raises:
            StoppedError: if another process is sending its figures there.
            CannotWriteError: if nothing can be written in it.
        """
        self.tracker: Tracker = tracker
        self._following = Following(folder)
        self._path = self._following.run.trackers / f"{tracker}.json"
        durable.make_folder(self._path.parent)
        with durable.writing(self._path):
            self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StoppedError(
                f"another process sends the figures of {folder} to {tracker}", help="wait for it"
            ) from None
        self._sent = _read_sent(self._path)
        self._recorder: Recorder | None = None

    @property
    def place(self) -> str:
        """The address of the run, or the command that shows it; "" before it was opened."""
        return self._recorder.place if self._recorder else ""

    def send(self) -> int:
        """Send what is missing, and return the number of points.

        Raises:
            CannotWriteError: if the tracker fails, whatever it raised.
            MissingInputError, DataError: if the run's files are damaged.
        """
        self._following.look()
        points = self._sent.beyond(self._following.points)
        following = self._following
        times = times_of(following.points, following.attempts, len(following.points) - len(points))
        for start in range(0, len(points), POINTS_AT_ONCE):
            part = points[start : start + POINTS_AT_ONCE]
            self._record(part, times[start : start + len(part)])
            self._sent = self._sent.after(part)
            durable.replace(self._path, json.dumps(asdict(self._sent)).encode())
        return len(points)

    def _record(self, points: Sequence[LineFigures], times: Sequence[float]) -> None:
        try:
            if self._recorder is None:
                run = TrackedRun(self._following.run.path, self._sent.id)
                self._recorder = recorder_of(self.tracker, run)
            self._recorder.record(points, times)
        except BertcError:
            raise
        except Exception as error:
            raise _not_taken(self.tracker, error) from error

    def close(self) -> None:
        """End the connection.

        Raises:
            CannotWriteError: if the tracker fails, whatever it raised.
        """
        recorder, self._recorder = self._recorder, None
        try:
            if recorder:
                recorder.close()
        except Exception as error:
            raise _not_taken(self.tracker, error) from error

    def release(self) -> None:
        """Let other processes send."""
        os.close(self._lock)


def send_missing(folder: Path, to: Sequence[str] = ()) -> list[str]:
    """Send what is missing to the trackers of a run, or to those named; returns a line for each.

    Raises:
        UsageError: if the run has no trackers, or there is no such tracker.
        CannotWriteError: if a tracker fails.
    """
    lines = []
    trackers = trackers_of(folder, to)
    refuse_missing(trackers)
    for tracker in trackers:
        delivery = Delivery(folder, tracker)
        try:
            count = delivery.send()
            place = f" ({delivery.place})" if delivery.place else ""
            delivery.close()
        finally:
            delivery.release()
        sent = f"was sent {count:,} lines" if count else "has all lines"
        lines.append(f"{folder}: {tracker} {sent}{place}")
    return lines


def trackers_of(folder: Path, named: Sequence[str] = ()) -> list[Tracker]:
    """The trackers that are named, else those of the run: of its ``log``, and any it was sent to.

    Raises:
        UsageError: if there is none, or no such tracker.
    """
    from bertc.ir.program.run import Tracker
    from bertc.runs.folder import RunFolder

    known = get_args(Tracker)
    if unknown := [name for name in named if name not in known]:
        raise UsageError(f"no tracker {unknown[0][:60]!r}", help=f"one of {', '.join(known)}")
    run = RunFolder(folder)
    of_spec = run.read_resolved().run.trackers
    there = [each for each in known if is_taken(run.trackers / f"{each}.json")]
    found = list(dict.fromkeys(named or [*of_spec, *there]))
    if not found:
        raise UsageError(f"{folder} has no tracker", help=f"--to {known[0]}")
    return [each for each in known if each in found]


def recorder_of(tracker: Tracker, run: TrackedRun) -> Recorder:
    """Open a run in a tracker.

    Raises:
        MissingInputError: if its package is not installed.
        Exception: whatever the tracker raises.
    """
    match tracker:
        case "tensorboard":
            from bertc.trackers.tensorboard import EventFile

            return EventFile(run)
        case "wandb":
            from bertc.trackers.wandb import WandbRun

            return WandbRun(run)
        case "mlflow":
            from bertc.trackers.mlflow import MlflowRun

            return MlflowRun(run)
        case "trackio":
            from bertc.trackers.trackio import TrackioRun

            return TrackioRun(run)
        case _:
            assert_never(tracker)


def _not_taken(tracker: Tracker, error: Exception) -> CannotWriteError:
    reason = escaped(str(error).strip().partition("\n")[0])[:200] or type(error).__name__
    return CannotWriteError(f"{tracker} failed: {reason}", help="bertc runs sync RUN, later")


def _read_sent(path: Path) -> Sent:
    if not is_taken(path):
        return Sent(secrets.token_hex(8))
    with suppress(ValidationError):
        return _SENT.validate_json(read_bytes(path, LARGEST_NOTE_BYTES))
    raise DataError(
        f"{path} is damaged: it is not what bertc runs sync writes",
        help=f"remove {path}: then all figures are sent again, as another run",
    )
