"""trackio: a project on this machine, or the space or server that its own variables name."""

import os
from contextlib import redirect_stdout
from io import StringIO

import trackio

from bertc.lab.results.figures import LineFigures
from bertc.lab.trackers.tracked import DEFAULT_PROJECT, TrackedRun


class TrackioSink:
    """A run of trackio, by its folder's name and id; one at a time, as trackio has it."""

    def __init__(self, run: TrackedRun) -> None:
        with redirect_stdout(StringIO()):  # it prints how to see the project
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", DEFAULT_PROJECT),
                name=f"{run.name}-{run.id}",
                config=dict(run.settings),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def record(self, point: LineFigures, time: float) -> None:
        """Log a point at its step; trackio's own thread writes it, with the time of that."""
        self._run.log(dict(point.values), step=point.step)

    def close(self) -> None:
        """Wait until all is kept."""
        with redirect_stdout(StringIO()):
            trackio.finish()
