"""spent.jsonl: the time and memory of a run's first process, a JSON object a line. No torch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from bertc.run.records.lines import FINITE, Count, append_line, read_lines


@dataclass(frozen=True)
class Usage:
    """The time and memory of a stage since the line before, by what it went to."""

    __pydantic_config__ = FINITE

    stage: str
    step: Count
    steps: Count = 0
    memory_bytes: Count = 0
    seconds: Mapping[str, float] = field(default_factory=dict)


_USAGE = TypeAdapter(Usage)


def append(path: Path, spent: Usage) -> None:
    """Append a line.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    append_line(path, asdict(spent))


def read(path: Path) -> list[Usage]:
    """Read the lines of a run, oldest first; [] without a file.

    Raises:
        MissingInputError: if it cannot be read.
        DataError: if a line is not what a run writes; names it.
    """
    return read_lines(path, _USAGE)


def by_stage(lines: Sequence[Usage]) -> dict[str, Usage]:
    """The usage of each stage, by its name."""
    names = dict.fromkeys(line.stage for line in lines)
    return {name: _together([line for line in lines if line.stage == name]) for name in names}


def _together(lines: Sequence[Usage]) -> Usage:
    """The sum of these lines, and the most memory."""
    seconds = Counter[str]()
    for line in lines:
        seconds.update(line.seconds)
    return Usage(
        lines[-1].stage,
        lines[-1].step,
        sum(line.steps for line in lines),
        max(line.memory_bytes for line in lines),
        dict(seconds),
    )
