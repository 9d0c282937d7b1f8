"""trackio: a project on this machine, or the space or server that its own variables name."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from bertc.runs.figures import LineFigures
from bertc.trackers.tracker import DEFAULT_PROJECT, TrackedRun, tracker_package


class TrackioRun:
    """A run of trackio, by its folder's name and id."""

    def __init__(self, run: TrackedRun) -> None:
        trackio = tracker_package("trackio", "trackio")
        project = os.environ.get("TRACKIO_PROJECT", DEFAULT_PROJECT)
        self._run = trackio.init(
            project=project,
            name=f"{run.name}-{run.id}",
            config=dict(run.settings),
            resume="allow",
            embed=False,
        )
        self.place = f"trackio show --project {project}"

    def record(self, points: Sequence[LineFigures], times: Sequence[float]) -> None:
        """Log each point at its step; when it was, is a figure of its own."""
        for point, time in zip(points, times, strict=True):
            when = datetime.fromtimestamp(time, UTC).isoformat()
            self._run.log({**point.values, "time": when}, step=point.step)

    def close(self) -> None:
        """Wait until all is kept."""
        self._run.finish()
