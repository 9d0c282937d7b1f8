"""TensorBoard's event files, in the run folder."""

from collections.abc import Sequence

from bertc.runs.curves import MetricsPoint
from bertc.trackers.tracker import TrackedRun, tracker_package

FOLDER = "tensorboard"


class EventFile:
    """A new event file, beside those of earlier attempts: TensorBoard reads them as one run."""

    def __init__(self, run: TrackedRun) -> None:
        writers = tracker_package("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._event = tracker_package("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        self._summary = tracker_package(
            "tensorboard.compat.proto.summary_pb2", "tensorboard"
        ).Summary
        self._writer = writers.EventFileWriter(str(run.folder / FOLDER))
        self.place = f"tensorboard --logdir {run.folder}"

    def record(self, points: Sequence[MetricsPoint], times: Sequence[float]) -> None:
        """Write a scalar for each figure, as 32-bit floats, and wait until the file has them."""
        for point, time in zip(points, times, strict=True):
            values = [
                self._summary.Value(tag=name, simple_value=value)
                for name, value in point.values.items()
            ]
            self._writer.add_event(
                self._event(wall_time=time, step=point.step, summary=self._summary(value=values))
            )
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
