"""The table of latencies: rows measured, predicted or both, beside the scores of runs."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from bertc import Resolved, Table, answer_cost, units
from bertc.lab.latency.cases import Case


@dataclass(frozen=True)
class Figures:
    """Seconds of a batch (the median), of the slowest of 20, and predicted bytes of memory."""

    seconds: float
    slowest: float | None = None
    memory_bytes: int | None = None
    runs: int = 0


@dataclass(frozen=True)
class Row:
    """A case with its figures, and the score of its run."""

    case: Case
    measured: Figures | None
    predicted: Figures | None
    score: tuple[str, float] | None

    @property
    def shown(self) -> Figures | None:
        """The measured figures, else the predicted ones."""
        return self.measured or self.predicted

    @property
    def ratio(self) -> float | None:
        """The measured time over the predicted one."""
        if self.measured is None or self.predicted is None:
            return None
        return self.measured.seconds / self.predicted.seconds

    def fields(self) -> dict[str, Any]:
        """The row as plain values: times in seconds, of a text."""
        batch, shown = self.case.shape.batch, self.shown
        per_text = None if shown is None else shown.seconds / batch
        return {
            **asdict(self.case.setup),
            **asdict(self.case.shape),
            "seconds_per_text": per_text,
            "seconds_per_text_p95": shown and shown.slowest and shown.slowest / batch,
            "texts_per_second": per_text and 1 / per_text,
            "runs": self.measured.runs if self.measured else 0,
            "predicted_seconds_per_text": self.predicted and self.predicted.seconds / batch,
            "predicted_memory_bytes": self.predicted and self.predicted.memory_bytes,
            "measured_over_predicted": self.ratio,
            "score": self.score and {"name": self.score[0], "value": self.score[1]},
        }


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
    "", "runtime", "precision", "threads", "length", "batch", "ms a text", "p95", "texts/s",
    "memory, predicted", "predicted", "x predicted", "score",
)  # fmt: skip


def _cells(row: Row) -> tuple[str, ...]:
    setup, shape, shown, batch = row.case.setup, row.case.shape, row.shown, row.case.shape.batch
    cells = (
        setup.name, setup.runtime, setup.precision, str(setup.threads),
        str(shape.length), str(shape.batch),
    )  # fmt: skip
    score = "" if row.score is None else f"{row.score[0]} {row.score[1]:.4g}"
    if shown is None:
        return (*cells, "", "", "", "", "", "", score)
    return (
        *cells,
        _milliseconds(shown.seconds / batch),
        "" if shown.slowest is None else _milliseconds(shown.slowest / batch),
        f"{batch / shown.seconds:,.0f}",
        _memory(row.predicted),
        _milliseconds(row.predicted.seconds / batch) if row.measured and row.predicted else "",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        score,
    )


def _memory(figures: Figures | None) -> str:
    return units.bytes_text(figures.memory_bytes) if figures and figures.memory_bytes else ""


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


TOKENS_OF_A_TEXT = 128
"""Length of the text that stands for all where none is given, as in ``bertc bench --latency``."""


def predicted(resolved: Resolved, case: Case) -> Figures | None:
    """Time and memory of a case on this CPU; None for other runtimes than torch."""
    setup, shape = case.setup, case.shape
    if setup.runtime != "torch" or setup.precision == "int8":
        return None
    figures = answer_cost(
        resolved, shape.length, shape.batch, threads=setup.threads, precision=setup.precision
    )
    return Figures(figures.seconds, memory_bytes=figures.memory_bytes)
