"""Sinks: trackers that are open for the figures of a run while it trains."""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bertc import BertcError, Resolved
from bertc.lab.results.figures import Line, LineReader
from bertc.lab.trackers.tracked import Sink, TrackedRun
from bertc.lab_api import escaped, settings_texts


@contextmanager
def feeding(
    folder: Path, program: Resolved, step: int, note: Callable[[str], None]
) -> Iterator[Callable[[Line], None]]:
    """Yield a function that sends lines of metrics to the trackers of a run taken up at ``step``.

    A tracker that raises is dropped, and ``note`` gets one warning: nothing ends the run.
    """
    sinks, reader = dict[str, Sink](), LineReader()

    def guarded(tracker: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            sinks.pop(tracker, None)
            reason = error.message if isinstance(error, BertcError) else str(error) or repr(error)
            line = escaped(reason.strip().partition("\n")[0])[:200]
            note(f"warning: {tracker} failed and gets no more figures of this run: {line}")

    def opened(tracker: str) -> None:
        run = TrackedRun(folder, _id_in(folder, tracker), settings_texts(program), step)
        sinks[tracker] = sink_of(tracker, run)

    def send(line: Line) -> None:
        point = reader.read(line)
        for name, sink in [*sinks.items()]:
            guarded(name, partial(sink.record, point, time.time()))

    for tracker in program.run.trackers:
        guarded(tracker, partial(opened, tracker))
    try:
        yield send
    finally:
        for name, sink in [*sinks.items()]:
            guarded(name, sink.close)


def sink_of(tracker: str, run: TrackedRun) -> Sink:
    """Open a run in a tracker, which may raise anything."""
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
        case _:
            raise AssertionError(f"no tracker of the language: {tracker}")


def _id_in(folder: Path, tracker: str) -> str:
    """The id by which a tracker knows a run, kept in the run's folder."""
    path = folder / "trackers" / f"{tracker}.json"
    if path.exists():
        return str(json.loads(path.read_bytes())["id"])
    made = secrets.token_hex(8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": made}))
    return made
