"""TensorBoard's event files, in the run folder."""

from torch.utils.tensorboard import SummaryWriter

from bertc.lab.results.figures import LineFigures
from bertc.lab.trackers.tracked import TrackedRun

FOLDER = "tensorboard"


class TensorBoardSink:
    """A new event file next to those of earlier attempts: TensorBoard reads them as one run."""

    def __init__(self, run: TrackedRun) -> None:
        self._writer = SummaryWriter(str(run.folder / FOLDER), purge_step=run.step + 1)

    def record(self, point: LineFigures, time: float) -> None:
        """Write a scalar for each figure."""
        for name, value in point.values.items():
            self._writer.add_scalar(name, value, point.step, walltime=time)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
