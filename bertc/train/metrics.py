"""metrics.jsonl: one JSON object a line, the truth about a run."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from bertc.storage import durable


@dataclass
class Sums:
    """What the steps since the last line add up to; all of a line but its address."""

    steps: int = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    """Steps that had a loss of each kind."""

    def add(self, loss: float, losses: dict[str, float], grad_norm: float) -> None:
        """Count one step in."""
        self.steps += 1
        self.loss += loss
        self.grad_norm += grad_norm
        for kind, value in losses.items():
            self.losses[kind] = self.losses.get(kind, 0.0) + value
            self.counted[kind] = self.counted.get(kind, 0) + 1

    def means(self) -> dict[str, Any]:
        """The means over the steps, as fields of a line."""
        return {
            "loss": self.loss / self.steps,
            "losses": {kind: total / self.counted[kind] for kind, total in self.losses.items()},
            "grad_norm": self.grad_norm / self.steps,
        }


class Metrics:
    """The open file of a run. Each line is handed to the system at once."""

    def __init__(self, path: Path, keep_bytes: int) -> None:
        """Open ``path`` and cut it back to its first ``keep_bytes``, whole lines only."""
        self._path = path
        self._file = open(path, "ab+")  # noqa: SIM115 - closed by __exit__
        self._file.truncate(_whole_lines(path, keep_bytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, line: dict[str, Any]) -> None:
        """Append a line.

        Raises:
            CannotWriteError: if the disk has no room.
        """
        text = json.dumps(line, allow_nan=False).encode() + b"\n"
        with durable.writing(self._path, len(text)):
            self._file.write(text)
            self._file.flush()

    def synced_bytes(self) -> int:
        """The length of the file, once the disk has all of it."""
        with durable.writing(self._path, 0):
            os.fsync(self._file.fileno())
        return self._path.stat().st_size


class Unwritten:
    """The metrics of a process that leaves the writing to another."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def write(self, line: dict[str, Any]) -> None:
        """Nothing."""

    def synced_bytes(self) -> int:
        """Nothing is written."""
        return 0


def read(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a metrics file; none if there is no file."""
    if not path.exists():
        return []
    raw = path.read_bytes()
    return [json.loads(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]


def _whole_lines(path: Path, limit_bytes: int) -> int:
    with open(path, "rb") as file:
        return file.read(limit_bytes).rfind(b"\n") + 1
