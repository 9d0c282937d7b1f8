"""The table of latencies, next to the scores of runs."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from bertc.lab.latency.cases import Case
from bertc.lab_api import Table


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
            **asdict(self.case.setup),
            **asdict(self.case.shape),
            "seconds_per_text": per_text,
            "seconds_per_text_p95": self.measured.slowest / self.case.shape.batch,
            "texts_per_second": 1 / per_text,
            "runs": self.measured.runs,
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
