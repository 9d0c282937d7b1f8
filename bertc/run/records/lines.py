"""Files that a run appends to: one JSON object a line. Loads no torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from bertc.base.diagnostics import DataError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_taken
from bertc.base.storage.plain_file import opened, read_bytes

LARGEST_BYTES = 2**30
FINITE = ConfigDict(strict=True, allow_inf_nan=False)
"""Validation of files that runs wrote: no conversions, no NaN."""
Count = Annotated[int, Field(ge=0, le=2**62)]
LineT = TypeVar("LineT")


@dataclass(frozen=True)
class Attempt:
    """A run taken up at ``step``: Unix time in seconds, host, device and number of processes."""

    __pydantic_config__ = FINITE

    step: Count
    time: float
    host: str
    device: str
    processes: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Usage:
    """The time and memory of a stage since the line before, by what it went to."""

    __pydantic_config__ = FINITE

    stage: str
    step: Count
    steps: Count = 0
    memory_bytes: Count = 0
    seconds: Mapping[str, float] = field(default_factory=dict)


ATTEMPT, USAGE = TypeAdapter(Attempt), TypeAdapter(Usage)


def read_lines(path: Path, kind: TypeAdapter[LineT], limit_bytes: int | None = None) -> list[LineT]:
    """Read the whole lines of a file, or of its first bytes; [] without a file."""
    if not is_taken(path):
        return []
    raw = read_bytes(path, LARGEST_BYTES)[:limit_bytes]
    lines = raw[: raw.rfind(b"\n") + 1].split(b"\n")[:-1]
    values = list[LineT]()
    for line in lines:
        try:
            values.append(kind.validate_json(line))
        except ValidationError as error:
            part = ".".join(map(str, error.errors()[0]["loc"]))
            what = f"{part} is missing or not what a run writes" if part else "it is no JSON object"
            raise DataError(
                f"{path}:{len(values) + 1} is damaged: {what}",
                help="restore a copy, or remove the file",
            ) from None
    return values


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Append a line, in place of half a one that a kill or a full disk left."""
    text = json.dumps(line, allow_nan=False).encode() + b"\n"
    with durable.writing(path, len(text)):
        end = whole_lines(path) if is_taken(path) else 0
        with open(path, "ab") as file:
            file.truncate(end)
            file.write(text)


def whole_lines(path: Path, limit_bytes: int = LARGEST_BYTES) -> int:
    """The length in bytes of the whole lines among the first bytes of a file."""
    with opened(path) as file:
        return file.read(limit_bytes).rfind(b"\n") + 1
