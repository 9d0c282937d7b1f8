"""Files that a run appends to, one JSON object a line; its metrics, and their way to trackers.

Loads no torch.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from bertc.base.diagnostics import DataError, MissingInputError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_taken
from bertc.base.storage.plain_file import opened, read_bytes
from bertc.ir.program import Resolved
from bertc.ir.program.settings import Tracker

LARGEST_BYTES = 2**30
FINITE = ConfigDict(strict=True, allow_inf_nan=False)
"""Validation of files that runs wrote: no conversions, no NaN."""
Count = Annotated[int, Field(ge=0, le=2**62)]
LineT = TypeVar("LineT")


@dataclass(frozen=True)
class Attempt:
    """A run taken up at ``step``: Unix time in seconds, host, device and number of processes.

    ``forecast``: the digest of the forecast in its folder, if there is one.
    """

    __pydantic_config__ = FINITE

    step: Count
    time: float
    host: str
    device: str
    processes: Annotated[int, Field(ge=1)]
    forecast: str = ""


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
            message = f"{path}:{len(values) + 1} is damaged: {what}"
            raise DataError(message, "restore a copy, or remove the file") from None
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


class Ended(TypedDict):
    """The end of a stage with patience: its best step, the step it stopped at, its planned end."""

    step: Count
    ended: Count
    end: Count


def describe(end: Ended) -> str:
    """A line on the end of a stage with patience."""
    early = "stopped early at" if end["ended"] < end["end"] else "ended at"
    return f"{early} step {end['ended']:,} of {end['end']:,}: best at step {end['step']:,}"


def ends_until(step: int, lines: Iterable["Line"]) -> tuple[int, tuple[str, ...]]:
    """Steps that stages with patience did not take, and a line on the end of each."""
    ended = [(line["stage"], line["best"]) for line in lines if "best" in line]
    ended = [(stage, end) for stage, end in ended if end["end"] <= step]
    notes = (f"stage {stage} {describe(end)}" for stage, end in ended)
    return sum(end["end"] - end["ended"] for _, end in ended), tuple(notes)


class Line(TypedDict, total=False):
    """A line of means over training steps, or of an evaluation (see ``run.evaluation.held_out``).

    Evaluations of older runs have ``mlm`` of all predicted positions, and no ``mlm_masked``.
    """

    __pydantic_config__ = FINITE  # type: ignore[misc]

    kind: Required[Literal["train", "eval"]]
    step: Required[Count]
    stage: Required[str]
    loss: Required[float]
    losses: Required[dict[str, float]]
    tokens: Count
    words: Count
    seconds: float
    grad_norm: float
    lr: float
    accuracy: dict[str, float]
    examples: Count
    loss_masked: float
    positions: dict[str, Count]
    unigram_loss: float
    unigram_losses: dict[str, float]
    base_rate: dict[str, float]
    languages: dict[str, dict[str, float]]
    scores: dict[str, dict[str, dict[str, float]]]
    always: dict[str, dict[str, str]]
    best: Ended


_LINE = TypeAdapter(Line)


@dataclass
class Sums:
    """Sums over the steps since the last line of metrics."""

    __pydantic_config__ = FINITE

    steps: Count = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)
    counted: dict[str, Annotated[int, Field(ge=1)]] = field(default_factory=dict)
    """Steps that had a loss of each kind."""

    def add(self, loss: float, losses: dict[str, float], grad_norm: float) -> None:
        """Add a step."""
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


class Metrics(AbstractContextManager["Metrics"]):
    """The open metrics file of a run; each line is flushed at once."""

    def __init__(self, path: Path, keep_bytes: int, send: Callable[[Any], None]) -> None:
        """Open a file, cut back to whole lines; ``send`` gets each line that is written."""
        self._path, self._send = path, send
        self._file = open(path, "ab+")  # noqa: SIM115 - closed by __exit__
        keep_bytes = whole_lines(path, keep_bytes)
        self._file.truncate(keep_bytes)
        self._file.seek(0)
        self._digest = hashlib.sha256(self._file.read())

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, line: dict[str, Any]) -> None:
        """Append a line."""
        text = json.dumps(line, allow_nan=False).encode() + b"\n"
        with durable.writing(self._path, len(text)):
            self._file.write(text)
            self._file.flush()
        self._digest.update(text)
        self._send(line)

    def sync(self) -> int:
        """The length of the file in bytes, after fsync."""
        with durable.writing(self._path, 0):
            os.fsync(self._file.fileno())
            durable.sync(self._path.parent)
        return self._path.stat().st_size

    @property
    def sha256(self) -> str:
        """sha256 of the file."""
        return self._digest.hexdigest()


def read(path: Path, limit_bytes: int | None = None) -> list[Line]:
    """Read the whole lines of a metrics file, or of its first bytes; [] without a file."""
    return read_lines(path, _LINE, limit_bytes)


Send = Callable[[Line], None]
Say = Callable[[str], None]
Tracking = Callable[[Path, Resolved, int, Say], AbstractContextManager[Send]]
"""Opens the trackers of a program for its run in a folder, begun or resumed at a step."""


def refuse_untracked(trackers: Sequence[Tracker], tracking: Tracking | None) -> None:
    """Refuse trackers that cannot get the figures of a run, without loading any."""
    for tracker in trackers:
        if find_spec(tracker) is None:
            message = f"{tracker} is not installed, which log={tracker} needs"
            raise MissingInputError(message, f"pip install -c constraints.txt -e '.[{tracker}]'")
    if trackers and not tracking:
        message = f"log={trackers[0]} needs what feeds it"
        raise UsageError(message, "train(..., tracking=bertc.lab.trackers.sink.feeding)")
