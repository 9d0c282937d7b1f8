"""Cases in which answering texts is timed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Literal, TypeVar, get_args

from bertc import UsageError
from bertc.lab_api import device_named

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


def chosen(runtime: str, precision: str, threads: str, batch: str, length: str) -> Choices:
    """Read lists as they are written on the command line: ``32,128``."""
    choices = Choices(
        _named("--runtime", runtime, RUNTIMES),
        _named("--precision", precision, PRECISIONS),
        _numbers("--threads", threads.replace(ALL_CORES, str(ceil(device_named("cpu").cores)))),
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


def _named(option: str, text: str, known: tuple[Name, ...]) -> tuple[Name, ...]:
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
