"""trackio: a project on this machine, or the space or server that its own variables name."""

import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO

from bertc.runs.figures import LineFigures
from bertc.trackers.tracker import DEFAULT_PROJECT, TrackedRun, tracker_package


class TrackioRun:
    """A run of trackio, by its folder's name and id; one at a time, as trackio has it."""

    def __init__(self, run: TrackedRun) -> None:
        self._trackio = tracker_package("trackio", "trackio")
        project = os.environ.get("TRACKIO_PROJECT", DEFAULT_PROJECT)
        with redirect_stdout(StringIO()):  # it prints how to see the project
            self._run = self._trackio.init(
                project=project,
                name=f"{run.name}-{run.id}",
                config=dict(run.settings),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        self.place = f"trackio show --project {project}"

    def record(self, points: Sequence[LineFigures], times: Sequence[float]) -> None:
        """Log each point at its step; trackio's own thread writes them, and sends them.

        Its own time is when that is done; ``when`` is a figure beside the others.
        """
        for point, time in zip(points, times, strict=True):
            when = datetime.fromtimestamp(time, UTC).isoformat()
            self._run.log({**point.values, "when": when}, step=point.step)

    def close(self) -> None:
        """Wait until all is kept."""
        with redirect_stdout(StringIO()):
            self._trackio.finish()
