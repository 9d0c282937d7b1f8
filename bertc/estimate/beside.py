"""The estimate of a step's parts beside what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertc.estimate.figures import PartCost
from bertc.estimate.units import bytes_text, duration_text
from bertc.estimate.where import LABEL, TITLES

COLUMN = 18
COMPILED = ("embeddings", "layers", "head", "teacher", "optimiser", "loader")
"""The rows where a layer was compiled as one: its parts cannot be distinguished."""


@dataclass(frozen=True)
class Measured:
    """Seconds of a step by part, and bytes that forward of a micro-batch leaves by part."""

    seconds: Mapping[str, float]
    activations_bytes: Mapping[str, int]
    step_seconds: float


@dataclass(frozen=True)
class PartBeside:
    """A row: what a part was estimated to take, and what it took."""

    part: str
    estimated_seconds: float
    measured_seconds: float
    estimated_activations_bytes: int
    measured_activations_bytes: int


def beside(
    where: Sequence[PartCost], measured: Measured, step_seconds: float = 0.0
) -> tuple[PartBeside, ...]:
    """A row a part, and one for the rest of a step.

    A profiler slows down what it watches: parts get their shares of ``step_seconds``, the time of
    a step without one, where it is known.
    """
    factor = (step_seconds or measured.step_seconds) / measured.step_seconds
    rows, parts = [], tuple(cost.part for cost in where)
    within_layers = (part for part in parts if part not in COMPILED)
    compiled = (part for part in COMPILED if part != "teacher" or part in parts)
    for part in compiled if "layers" in measured.seconds else parts:
        names = (part, *within_layers) if part == "layers" else (part,)
        costs = [cost for cost in where if cost.part in names]
        rows.append(
            PartBeside(
                part,
                estimated_seconds=sum(cost.seconds for cost in costs),
                measured_seconds=factor * sum(measured.seconds.get(name, 0.0) for name in names),
                estimated_activations_bytes=sum(cost.activations_bytes for cost in costs),
                measured_activations_bytes=sum(
                    measured.activations_bytes.get(name, 0) for name in names
                ),
            )
        )
    rest = factor * measured.step_seconds - sum(row.measured_seconds for row in rows)
    return (*rows, PartBeside("rest", 0.0, rest, 0, 0))


def beside_table(title: str, rows: Sequence[PartBeside]) -> str:
    """The rows as text, with their sums."""
    head = ("estimated", "measured", "of it", "activations, est.", "measured")
    whole = sum(row.measured_seconds for row in rows) or 1.0
    lines = [title, " " * LABEL + "".join(cell.rjust(COLUMN) for cell in head)]
    for row in rows:
        cells = (
            duration_text(row.estimated_seconds) if row.estimated_seconds else "",
            duration_text(row.measured_seconds),
            f"{100 * row.measured_seconds / whole:.0f}%",
            *map(_bytes, (row.estimated_activations_bytes, row.measured_activations_bytes)),
        )
        name = TITLES.get(row.part, row.part)
        lines.append(name.ljust(LABEL) + "".join(cell.rjust(COLUMN) for cell in cells))
    sums = (
        duration_text(sum(row.estimated_seconds for row in rows)),
        duration_text(whole),
        "",
        bytes_text(sum(row.estimated_activations_bytes for row in rows)),
        bytes_text(sum(row.measured_activations_bytes for row in rows)),
    )
    lines.append("whole step".ljust(LABEL) + "".join(cell.rjust(COLUMN) for cell in sums))
    return "\n".join(line.rstrip() for line in lines)


def _bytes(count: int) -> str:
    return bytes_text(count) if count else ""
