"""A run's curves while it trains, read on from where they were read to. Loads no torch."""

from pathlib import Path

from bertc.diagnostics import DataError
from bertc.runs import attempts, metrics
from bertc.runs.attempts import Attempt
from bertc.runs.curves import Curves, MetricsPoint, Placing
from bertc.runs.folder import RunFolder
from bertc.storage.paths import is_taken
from bertc.storage.plain_file import size_bytes


class Following:
    """The curves of a run as of the last ``look``; none before the first."""

    def __init__(self, folder: Path) -> None:
        """Read the run's program.

        Raises:
            MissingInputError, DataError: if there is none, or it is damaged.
        """
        self.run = RunFolder(folder)
        self._begin()

    def _begin(self) -> None:
        self.resolved = self.run.read_resolved()
        self.attempts: list[Attempt] = []
        self.points: list[MetricsPoint] = []
        self._placing = Placing(self.resolved)
        self._read_bytes = self._attempts_bytes = 0

    @property
    def curves(self) -> Curves:
        """The curves as read so far."""
        return Curves(tuple(self.points), tuple(self.attempts))

    def look(self) -> bool:
        """Read what is new, and return true if anything is.

        A run that goes on from a checkpoint cuts its metrics back to it: then all is read again.

        Raises:
            MissingInputError, DataError: if its files cannot be read, or are damaged.
        """
        length, taken_up = _bytes_of(self.run.metrics), _bytes_of(self.run.attempts)
        if (length, taken_up) == (self._read_bytes, self._attempts_bytes):
            return False
        if length < self._read_bytes or taken_up != self._attempts_bytes:
            self._begin()
            self._attempts_bytes = taken_up
            self.attempts = attempts.read(self.run.attempts)
        try:
            return self._read() or bool(taken_up)
        except DataError:
            # It may have been cut back and have grown beyond this place since the last look.
            self._begin()
            return self._read()

    def _read(self) -> bool:
        before = self._read_bytes
        if is_taken(self.run.metrics):
            lines, self._read_bytes = metrics.read_on(self.run.metrics, before)
            self.points += self._placing.points(lines)
        return self._read_bytes > before


def _bytes_of(path: Path) -> int:
    return size_bytes(path) if is_taken(path) else 0
