"""Estimates of a table's rows at a scale, next to published figures; loads no torch."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import bertc
from bertc import DataError, MissingInputError, SpecError, lab_api
from bertc.lab.reproduce.programs import Jobs
from bertc.lab.reproduce.table import FIGURES
from bertc.lab_api import units

_COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("row", str), "parameters": ("parameters", units.count_text),
    "published_parameters": ("published", units.count_text), "steps": ("steps", "{:,}".format),
    "flops": ("training FLOPs", units.flops_text),
    "published_flops": ("published", units.flops_text), "bytes": ("memory", units.bytes_text),
    "seconds": ("time", units.duration_text),
}  # fmt: skip
"""The figures of a row: title and text of each."""


@dataclass(frozen=True)
class Costs:
    """The estimates of a table's rows at a scale, and of runs that they begin with.

    Rows have the figures of ``_COLUMNS``, None if they depend on a run that does not exist yet:
    ``why``. ``basis`` is the source of the times, ``lacks`` has a line for each missing file.
    """

    table: str
    scale: str
    device: str
    rows: tuple[dict[str, Any], ...]
    lacks: tuple[str, ...]
    basis: str

    @property
    def is_sound(self) -> bool:
        """True if every row has an estimate."""
        return not any(row["why"] for row in self.rows)

    def as_table(self) -> str:
        """A line a row, then the files that are missing."""
        names = [name for name in _COLUMNS if any(row[name] is not None for row in self.rows)]
        rows = [[row[name] for name in names] for row in self.rows]
        head, units = zip(*(_COLUMNS[name] for name in names), strict=True)
        notes = [
            f"each once, on {self.device}, without the tasks that follow pretraining; without "
            "vocabulary or examples, rows of tasks count as full",
            *([self.basis] if self.basis else []),
            *(f"{row['name']}: {row['why']}" for row in self.rows if row["why"]),
        ]
        table = lab_api.Table(head, rows, units=units)
        return "\n".join((str(table), *notes, *self.lacks))

    def as_json(self) -> str:
        """The estimates as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1)


def costs_of(jobs: Jobs, device: str) -> Costs:
    """Estimate the first run of every row, and those that rows begin with."""
    table, rows, basis = jobs.table, list[dict[str, Any]](), ""
    published = {row.name: row.published for row in table.rows}
    runs = {f"before: {run.name}": jobs.before(run) for run in table.before} | jobs.firsts()
    for name, job in runs.items():
        row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"name": name, "why": ""}
        for figure in FIGURES:
            row[f"published_{figure}"] = published.get(name, {}).get(figure)
        rows.append(row)
        try:
            program = job.program()
            cost = bertc.estimate(program, device, table.convention)
        except SpecError as error:
            row["why"] = str(error).splitlines()[0]
        except (MissingInputError, DataError) as error:
            row["why"] = f"{error} (help: {error.help})"
        else:
            row |= {
                "parameters": cost.parameters.total, "steps": program.steps,
                "flops": cost.flops.train_total, "bytes": cost.memory.peak_bytes,
                "seconds": cost.time.seconds_total,
            }  # fmt: skip
            basis = " ".join(cost.time.basis.split())
    needed = {need for job in (*runs.values(), *jobs.all([1])) for need in job.lacks}
    lacks = tuple(line for need, line in jobs.files.missing.items() if need in needed)
    return Costs(table.name, jobs.name, device, tuple(rows), lacks, basis)
