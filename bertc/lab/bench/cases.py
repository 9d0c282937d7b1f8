"""Cases in which answering texts is timed, and their table. Loads no torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil
from typing import Any, Literal, TypeVar, get_args

from bertc import UsageError
from bertc.lab_api import Table, device_named

Runtime = Literal["torch", "onnx"]
NumberFormat = Literal["fp32", "bf16", "int8"]
RUNTIMES, PRECISIONS = get_args(Runtime), get_args(NumberFormat)
POSSIBLE: Mapping[Runtime, tuple[NumberFormat, ...]] = {
    "torch": ("fp32", "bf16"),
    "onnx": ("fp32", "int8"),
}
"""Precisions of each runtime: onnxruntime has no bf16 products for a CPU, bertc's modules no int8.
"""
LARGEST = 1 << 16
ALL_CORES = "all"
Name = TypeVar("Name", bound=str)


@dataclass(frozen=True)
class Shape:
    """Rows answered at once, and tokens of each."""

    batch: int
    length: int


@dataclass(frozen=True)
class Setup:
    """One network, and the way it is run."""

    name: str
    runtime: Runtime
    precision: NumberFormat
    threads: int


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    setup: Setup
    shape: Shape


@dataclass(frozen=True)
class Choices:
    """The lists that were asked for: every possible combination is a case."""

    runtimes: tuple[Runtime, ...]
    precisions: tuple[NumberFormat, ...]
    threads: tuple[int, ...]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All shapes, shorter rows first."""
        return tuple(Shape(batch, length) for length, batch in product(self.lengths, self.batches))

    def setups(self, names: Sequence[str]) -> tuple[Setup, ...]:
        """The ways of running each network."""
        every = product(names, self.runtimes, self.precisions, self.threads)
        return tuple(
            Setup(name, runtime, precision, threads)
            for name, runtime, precision, threads in every
            if precision in POSSIBLE[runtime]
        )

    def cases(self, names: Sequence[str]) -> tuple[Case, ...]:
        """All cases, those of one shape together."""
        pairs = product(self.shapes, self.setups(names))
        return tuple(Case(setup, shape) for shape, setup in pairs)


def read_threads(threads: str) -> tuple[int, ...]:
    """Read numbers of threads, such as ``1,all``."""
    return _numbers("--threads", threads.replace(ALL_CORES, str(ceil(device_named("cpu").cores))))


def read_choices(runtime: str, precision: str, threads: str, batch: str, length: str) -> Choices:
    """Read lists as they are written on the command line: ``32,128``."""
    choices = Choices(
        _read_names("--runtime", runtime, RUNTIMES),
        _read_names("--precision", precision, PRECISIONS),
        read_threads(threads),
        _numbers("--batch", batch),
        _numbers("--length", length),
    )
    for wanted in choices.precisions:
        if not any(wanted in POSSIBLE[runtime] for runtime in choices.runtimes):
            has = next(name for name, precisions in POSSIBLE.items() if wanted in precisions)
            raise UsageError(
                f"{' and '.join(choices.runtimes)} does not run {wanted} here",
                help=f"--runtime {','.join((*choices.runtimes, has))}",
            )
    return choices


def _read_names(option: str, text: str, known: tuple[Name, ...]) -> tuple[Name, ...]:
    parts = _parts(option, text)
    if wrong := [part for part in parts if part not in known]:
        raise UsageError(f"{option} {wrong[0]}: unknown", help=f"{option} {','.join(known)}")
    return tuple(name for name in known if name in parts)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = _parts(option, text)
    if wrong := [p for p in parts if not (p.isascii() and p.isdecimal() and 0 < int(p) <= LARGEST)]:
        raise UsageError(
            f"{option} {wrong[0]}: a number from 1 to {LARGEST:,} expected", help=f"{option} 1,8"
        )
    return tuple(dict.fromkeys(map(int, parts)))


def _parts(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{option} {text!r}: values separated by commas expected")
    return parts


@dataclass(frozen=True)
class Figures:
    """Seconds of a batch: the median of the runs, and of the slowest of 20."""

    seconds: float
    slowest: float
    runs: int


@dataclass(frozen=True)
class Row:
    """A case with its figures, and the score of its run."""

    case: Case
    measured: Figures
    score: tuple[str, float] | None

    def fields(self) -> dict[str, Any]:
        """The row as plain values: times in seconds, of a text."""
        per_text = self.measured.seconds / self.case.shape.batch
        return {
            **asdict(self.case.setup), **asdict(self.case.shape), "seconds_per_text": per_text,
            "seconds_per_text_p95": self.measured.slowest / self.case.shape.batch,
            "texts_per_second": 1 / per_text, "runs": self.measured.runs,
            "score": self.score and {"name": self.score[0], "value": self.score[1]},
        }  # fmt: skip


@dataclass(frozen=True)
class Latencies:
    """All rows, and lines on how they came about."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def as_json(self) -> str:
        """One JSON object."""
        rows = [row.fields() for row in self.rows]
        return json.dumps({"schema": 1, "rows": rows, "notes": self.notes}, indent=1)

    def as_table(self) -> str:
        """The rows as text, without the columns that are empty in all of them."""
        lines = [HEAD, *map(_cells, self.rows)]
        columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
        head, *rows = zip(*columns, strict=True)
        return str(Table(head, rows, notes=self.notes))


HEAD = (
    "", "runtime", "precision", "threads", "length", "batch", "ms a text", "p95", "texts/s", "score"
)  # fmt: skip


def _cells(row: Row) -> tuple[str, ...]:
    setup, shape, batch = row.case.setup, row.case.shape, row.case.shape.batch
    return (
        setup.name, setup.runtime, setup.precision, str(setup.threads),
        str(shape.length), str(batch),
        _milliseconds(row.measured.seconds / batch),
        _milliseconds(row.measured.slowest / batch),
        f"{batch / row.measured.seconds:,.0f}",
        "" if row.score is None else f"{row.score[0]} {row.score[1]:.4g}",
    )  # fmt: skip


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"
