"""Sinks: trackers that are open for the figures of a run while it trains."""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from bertc import BertcError, Resolved
from bertc.base.diagnostics.render import escaped
from bertc.base.storage import durable
from bertc.base.storage.json_file import read_json
from bertc.base.storage.paths import is_taken
from bertc.ir.program.run import Tracker
from bertc.lab.trackers.tracked import Sink, TrackedRun
from bertc.run.beginning.tracking import Send
from bertc.run.records.figures import LineReader
from bertc.run.records.groups import settings_texts

LARGEST_NOTE_BYTES = 2**16


@contextmanager
def feeding(
    folder: Path, program: Resolved, step: int, note: Callable[[str], None]
) -> Iterator[Send]:
    """Yield a function that sends lines of metrics to the trackers of a run taken up at ``step``.

    A tracker that raises is dropped, and ``note`` gets one warning: nothing ends the run.
    """
    sinks: dict[Tracker, Sink] = {}
    reader = LineReader()

    def guarded(tracker: Tracker, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            sinks.pop(tracker, None)
            reason = error.message if isinstance(error, BertcError) else str(error) or repr(error)
            line = escaped(reason.strip().partition("\n")[0])[:200]
            note(f"warning: {tracker} failed and gets no more figures of this run: {line}")

    def opened(tracker: Tracker) -> None:
        run = TrackedRun(folder, _id_in(folder, tracker), settings_texts(program), step)
        sinks[tracker] = sink_of(tracker, run)

    def send(line: Any) -> None:
        for point in reader.figures([line]):
            for tracker, sink in [*sinks.items()]:
                guarded(tracker, partial(sink.record, point, time.time()))

    for tracker in program.run.trackers:
        guarded(tracker, partial(opened, tracker))
    try:
        yield send
    finally:
        for tracker, sink in [*sinks.items()]:
            guarded(tracker, sink.close)


def sink_of(tracker: Tracker, run: TrackedRun) -> Sink:
    """Open a run in a tracker.

    Raises:
        Exception: whatever the tracker raises.
    """
    match tracker:
        case "tensorboard":
            from bertc.lab.trackers.tensorboard import TensorBoardSink

            return TensorBoardSink(run)
        case "wandb":
            from bertc.lab.trackers.wandb import WandbSink

            return WandbSink(run)
        case "mlflow":
            from bertc.lab.trackers.mlflow import MlflowSink

            return MlflowSink(run)
        case "trackio":
            from bertc.lab.trackers.trackio import TrackioSink

            return TrackioSink(run)
        case _:
            assert_never(tracker)


def _id_in(folder: Path, tracker: Tracker) -> str:
    """The id by which a tracker knows a run, kept in the run's folder."""
    path = folder / "trackers" / f"{tracker}.json"
    if is_taken(path):
        return str(read_json(path, LARGEST_NOTE_BYTES)["id"])
    made = secrets.token_hex(8)
    durable.make_folder(path.parent)
    durable.replace(path, json.dumps({"id": made}).encode())
    return made
