"""attempts.jsonl: each time that processes took up a run, a JSON object a line. Loads no torch."""

import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from bertc.diagnostics import DataError
from bertc.runs.metrics import FINITE, Count, append_line
from bertc.storage.paths import is_taken
from bertc.storage.plain_file import read_bytes

LARGEST_BYTES = 2**24


@dataclass(frozen=True)
class Attempt:
    """A run taken up at ``step``: Unix time in seconds, host, device and number of processes."""

    __pydantic_config__ = FINITE

    step: Count
    time: float
    host: str
    device: str
    processes: Annotated[int, Field(ge=1)]


_ATTEMPT = TypeAdapter(Attempt)


def begin_attempt(path: Path, step: int, device: str, processes: int) -> None:
    """Append that this machine takes up the run at ``step``.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    attempt = Attempt(step, time.time(), platform.node(), device, processes)
    append_line(path, asdict(attempt))


def read(path: Path) -> list[Attempt]:
    """Read the attempts of a run, oldest first; [] without a file.

    Raises:
        MissingInputError: if it cannot be read.
        DataError: if a line is not what a run writes; names it.
    """
    if not is_taken(path):
        return []
    lines = read_bytes(path, LARGEST_BYTES).split(b"\n")[:-1]
    return [_attempt(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _attempt(raw: bytes, place: str) -> Attempt:
    try:
        return _ATTEMPT.validate_json(raw)
    except ValidationError:
        raise DataError(
            f"{place} is damaged: it is not what a run writes",
            help="restore a copy, or remove the line",
        ) from None
