"""attempts.jsonl: each time that processes took up a run, a JSON object a line. Loads no torch."""

import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from bertc.run.records.lines import FINITE, Count, append_line, read_lines


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
    return read_lines(path, _ATTEMPT)
