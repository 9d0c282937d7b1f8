"""Estimates of a table's rows at a scale, beside published figures; loads no torch."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bertc.diagnostics import BertcError, SpecError
from bertc.estimate.machines.devices import device_named
from bertc.estimate.units import bytes_text, count_text, duration_text, flops_text
from bertc.external import full_rows
from bertc.tables.drawing import drawn
from bertc.tables.job import Job, is_finished
from bertc.tables.programs import Jobs, estimated
from bertc.tables.table import Table


@dataclass(frozen=True)
class RowCost:
    """The estimate of a run; ``runs`` are the rows' runs of which this is the first.

    Figures are None where it cannot be estimated before another run is there: ``why``.
    """

    name: str
    parameters: int | None
    steps: int | None
    flops: float | None
    bytes: int | None
    seconds: float | None
    published_parameters: float | None = None
    published_flops: float | None = None
    why: str = ""
    full_rows: bool = False
    """True if FLOPs and time are of full rows, as the mean length is unknown."""


@dataclass(frozen=True)
class Costs:
    """The estimates of a table's rows at a scale, and of runs that they begin with."""

    table: str
    scale: str
    device: str
    rows: tuple[RowCost, ...]
    lacks: tuple[str, ...]
    basis: str
    """The source of a CPU's rates."""

    @property
    def is_sound(self) -> bool:
        """True if every row has an estimate."""
        return not any(row.why for row in self.rows)

    def as_table(self) -> str:
        """A line a row, then what has to be brought."""
        head = [
            "row", "parameters", "published", "steps", "training FLOPs", "published", "memory",
            "time",
        ]  # fmt: skip
        columns = zip(head, zip(*map(_cells, self.rows), strict=True), strict=True)
        filled = [(title, cells) for title, cells in columns if any(cells)]
        lines = zip(*(cells for _, cells in filled), strict=True)
        text = drawn([title for title, _ in filled], [*lines])
        notes = [f"each once, on {self.device}; tasks beside pretraining are not in it"]
        notes += [self.basis] if self.basis else []
        notes += [f"{row.name}: {row.why}" for row in self.rows if row.why]
        if full := [row.name for row in self.rows if row.full_rows]:
            why = "for want of a vocabulary or of examples"
            notes.append(f"FLOPs and time of full rows, {why}: {', '.join(full)}")
        return "\n".join([text, *notes, *self.lacks])

    def as_json(self) -> str:
        """The estimates as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1)


def costs_of(jobs: Jobs, device: str) -> Costs:
    """Estimate the first run of every row, and those that rows begin with."""
    table = jobs.table
    firsts = [(row.name, next(iter(jobs.of(row, 1)))) for row in table.rows]
    before = [(f"before: {each.name}", jobs.before(each)) for each in table.before]
    rows = [_cost(name, job, table, device) for name, job in (*before, *firsts)]
    every = [job for _, job in (*before, *firsts)]
    every += [job for row in table.rows for job in jobs.of(row, 1)]
    lacks, target = tuple(lacking(jobs, every)), device_named(device)
    basis = " ".join(target.source.split()) if target.kind == "cpu" else ""
    return Costs(table.name, jobs.name, device, tuple(rows), lacks, basis)


def lacking(jobs: Jobs, every: Sequence[Job]) -> list[str]:
    """A line for each of the files that runs need and that are not there."""
    names = dict.fromkeys(name for job in every for name in job.lacks)
    return [
        f"{jobs.files.of(name, need)} is not there: {need.form}, from {need.source}"
        for name, need in jobs.table.needs.items()
        if name in names
    ]


def stand_ins(jobs: Jobs) -> list[str]:
    """A line for each of the files that are not there, and in whose place runs read others."""
    return [
        f"{jobs.files.of(name, need)} is not there: {need.otherwise} in its place"
        for name, need in jobs.table.needs.items()
        if need.otherwise and not jobs.files.there(name, need)
    ]


def waiting(jobs: Sequence[Job], out: Path) -> list[Job]:
    """The jobs, each with the files that the unfinished ones before it lack too."""
    found = dict[str, Job]()
    for job in jobs:
        earlier = [found[each] for each in job.after if not is_finished(found[each], out)]
        lacks = dict.fromkeys([*job.lacks, *(name for each in earlier for name in each.lacks)])
        found[job.name] = replace(job, lacks=(*lacks,))
    return [*found.values()]


def _cost(name: str, job: Job, table: Table, device: str) -> RowCost:
    published = next((row.published for row in table.rows if row.name == name), {})
    printed = published.get("parameters"), published.get("flops")
    try:
        program = job.program()
        told = estimated(program, device, table.convention)
    except (BertcError, SpecError) as error:
        return RowCost(name, None, None, None, None, None, *printed, why=_why(error))
    return RowCost(
        name,
        told.parameters.total,
        program.steps,
        told.flops.train_total,
        told.memory.peak_bytes,
        told.time.seconds_total,
        *printed,
        full_rows=full_rows(program, [stage.row_tokens for stage in told.stages]),
    )


def _why(error: Exception) -> str:
    """The first mistake, in a line with its remedy."""
    if isinstance(error, BertcError):
        return f"{error.message} (help: {error.help})"
    return str(error).splitlines()[0]


def _cells(row: RowCost) -> list[str]:
    def shown(value: float | None, text: Callable[[float], str]) -> str:
        return "" if value is None else text(value)

    return [
        row.name,
        shown(row.parameters, count_text),
        shown(row.published_parameters, count_text),
        shown(row.steps, "{:,}".format),
        shown(row.flops, flops_text),
        shown(row.published_flops, flops_text),
        shown(row.bytes, bytes_text),
        shown(row.seconds, duration_text),
    ]
