"""A run's figures while it trains, read on from where they were read to. Loads no torch."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import is_taken
from bertc.base.storage.plain_file import size_bytes
from bertc.hub.folders import RESOLVED
from bertc.run.records import attempts, metrics, spent
from bertc.run.records.attempts import Attempt
from bertc.run.records.figures import LineFigures, LineReader


class FollowedFiles:
    """The paths in a run folder of what is followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.attempts = path / "attempts.jsonl"
        self.spent = path / "spent.jsonl"
        self.resolved = path / RESOLVED

    @property
    def last_sign(self) -> float:
        """The Unix time at which the run last wrote a figure, was taken up, or was made."""
        files = (self.metrics, self.attempts, self.resolved)
        return max((path.stat().st_mtime for path in files if is_taken(path)), default=0.0)

    def read_attempts(self) -> list[Attempt]:
        """Each time that processes took up the run, oldest first; times are Unix seconds.

        Raises:
            MissingInputError, DataError: if the file cannot be read, or is damaged.
        """
        return attempts.read(self.attempts)

    def read_spent(self) -> dict[str, spent.Usage]:
        """Seconds by use and peak bytes of the run's first process, by stage.

        Raises:
            MissingInputError, DataError: if the file cannot be read, or is damaged.
        """
        return spent.by_stage(spent.read(self.spent))

    def figures(self, lines: Iterable[metrics.Line]) -> Iterator[LineFigures]:
        """The figures by flat names of all lines of metrics, with the speed between two."""
        return LineReader().figures(lines)

    def follow(self) -> "Following":
        """The figures as they come: ``look()`` reads what is new into ``points``."""
        return Following(self.path)


class Following:
    """The figures of a run as of the last ``look``; none before the first.

    ``begun`` counts how often it was read from its beginning.
    """

    def __init__(self, folder: Path) -> None:
        self.run = FollowedFiles(folder)
        self.begun = 0
        self._begin()

    def _begin(self) -> None:
        self.begun += 1
        self.attempts: list[Attempt] = []
        self.points: list[LineFigures] = []
        self._lines = LineReader()
        self._read_bytes = self._attempts_bytes = 0

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
            self.attempts = self.run.read_attempts()
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
            self.points += self._lines.figures(lines)
        return self._read_bytes > before


def _bytes_of(path: Path) -> int:
    return size_bytes(path) if is_taken(path) else 0
