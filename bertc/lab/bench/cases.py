"""Cases in which answering texts is timed, and their table. Loads no torch."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from statistics import median
from typing import Any, Literal, NamedTuple, TypeVar, get_args

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
SLOWEST = 0.95
"""The share of runs that are quicker than the slow one that the table names."""
ALL_CORES = "all"
Name = TypeVar("Name", bound=str)


class Setup(NamedTuple):
    """One network, and the way it is run."""

    name: str
    runtime: Runtime
    precision: NumberFormat
    threads: int


class Case(NamedTuple):
    """One row of the table: a setup, the rows answered at once, and tokens of each."""

    setup: Setup
    batch: int
    length: int


class Choices(NamedTuple):
    """The lists that were asked for: every possible combination is a case."""

    runtimes: tuple[Runtime, ...]
    precisions: tuple[NumberFormat, ...]
    threads: tuple[int, ...]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]

    def cases(self, names: Sequence[str]) -> list[Case]:
        """All cases, those of one batch and length together."""
        ways = product(names, self.runtimes, self.precisions, self.threads)
        setups = [setup for way in ways if (setup := Setup(*way)).precision in POSSIBLE[way[1]]]
        every = product(self.lengths, self.batches, setups)
        return [Case(setup, batch, length) for length, batch, setup in every]


def read_threads(threads: str) -> tuple[int, ...]:
    """Read numbers of threads, such as ``1,all``."""
    return _numbers("--threads", threads.replace(ALL_CORES, str(ceil(device_named("cpu").cores))))


def read_choices(runtime: str, precision: str, threads: str, batch: str, length: str) -> Choices:
    """Read lists as they are written on the command line: ``32,128``."""
    choices = Choices(
        _read_names("--runtime", runtime, RUNTIMES),
        _read_names("--precision", precision, PRECISIONS), read_threads(threads),
        _numbers("--batch", batch), _numbers("--length", length),
    )  # fmt: skip
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


def row_of(case: Case, times: Sequence[float], score: tuple[str, float] | None) -> dict[str, Any]:
    """A row: the case, the seconds that a text took in its runs, and the score of the network."""
    ordered = sorted(times)
    slow = ordered[round(SLOWEST * (len(ordered) - 1))]
    per_text = median(ordered) / case.batch
    return {
        **case.setup._asdict(), "batch": case.batch, "length": case.length,
        "seconds_per_text": per_text, "seconds_per_text_p95": slow / case.batch,
        "texts_per_second": 1 / per_text, "runs": len(times),
        "score": score and {"name": score[0], "value": score[1]},
    }  # fmt: skip


@dataclass(frozen=True)
class Latencies:
    """All rows, and lines on how they came about."""

    rows: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...]

    def as_json(self) -> str:
        """One JSON object."""
        return json.dumps({"schema": 1, "rows": self.rows, "notes": self.notes}, indent=1)

    def as_table(self) -> str:
        """The rows as text, without the columns that are empty in all of them."""
        names = [name for name in COLUMNS if any(row[name] for row in self.rows)]
        head, units = zip(*(COLUMNS[name] for name in names), strict=True)
        rows = [[row[name] for name in names] for row in self.rows]
        return str(Table(head, rows, notes=self.notes, units=units))


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("", str), "runtime": ("runtime", str), "precision": ("precision", str),
    "threads": ("threads", str), "length": ("length", str), "batch": ("batch", str),
    "seconds_per_text": ("ms a text", _milliseconds),
    "seconds_per_text_p95": ("p95", _milliseconds),
    "texts_per_second": ("texts/s", "{:,.0f}".format),
    "score": ("score", "{0[name]} {0[value]:.4g}".format),
}  # fmt: skip
"""The figures of a row that the table has: title and text of each."""
