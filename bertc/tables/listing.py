"""All shipped tables: question, paper, rows, and FLOPs of training them at each scale."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bertc.diagnostics import BertcError, SpecError
from bertc.estimate.flops import executed_flops
from bertc.estimate.units import flops_text
from bertc.ir.program.resolved import Resolved
from bertc.resources import folder
from bertc.storage.json_file import read_json
from bertc.tables.drawing import drawn, markdown
from bertc.tables.files import Files
from bertc.tables.job import Job
from bertc.tables.programs import Jobs
from bertc.tables.reading import read_table, shipped_tables
from bertc.tables.reproduce import table_folder
from bertc.tables.table import Table


@dataclass(frozen=True)
class ListedTable:
    """A table, and FLOPs by scale of training each row once."""

    name: str
    paper: str
    place: str
    asks: str
    rows: int
    flops: dict[str, float]


@dataclass(frozen=True)
class TableList:
    """The shipped tables."""

    tables: tuple[ListedTable, ...]
    is_sound = True

    def as_table(self) -> str:
        """A line a table: name, rows, FLOPs of each scale, question and paper."""
        left = drawn(*self._columns()).splitlines()
        width = max(map(len, left), default=0)
        asked = ["", *(f"{t.asks} {t.paper}, {t.place}" for t in self.tables)]
        return "\n".join(
            f"{line:{width}}  {text}".rstrip() for line, text in zip(left, asked, strict=True)
        )

    def as_markdown(self) -> str:
        """A row a table as Markdown, with a link to the page of each."""
        head, lines = self._columns()
        linked = [
            [f"[{t.name}]({t.name}.md)", f"{t.asks} {t.paper}, {t.place}", *line[1:]]
            for t, line in zip(self.tables, lines, strict=True)
        ]
        return markdown([head[0], "question", *head[1:]], linked)

    def _columns(self) -> tuple[list[str], list[list[str]]]:
        scales = list(self.tables[0].flops) if self.tables else []
        lines = [[t.name, str(t.rows), *map(flops_text, t.flops.values())] for t in self.tables]
        return ["table", "rows", *scales], lines

    def as_json(self) -> str:
        """The tables as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1)


COSTS = "costs.json"
"""Beside the tables: FLOPs by table and scale, which docs/tables.py counts, since it takes long."""
_LARGEST_BYTES = 2**20


def listing() -> TableList:
    """Every shipped table."""
    known = read_json(folder("specs") / "tables" / COSTS, _LARGEST_BYTES)
    return TableList(tuple(_listed(read_table(name), known) for name in shipped_tables()))


def _listed(table: Table, known: Mapping[str, dict[str, float]]) -> ListedTable:
    flops = known.get(table.name) or flops_by_scale(table)
    return ListedTable(table.name, table.paper, table.place, table.asks, len(table.rows), flops)


def flops_by_scale(table: Table) -> dict[str, float]:
    """FLOPs of training each row once, by scale, to four digits."""
    return {str(scale): float(f"{_flops(table, scale):.3e}") for scale in table.scales}


def _flops(table: Table, scale: str) -> float:
    jobs = Jobs(table, scale, Files(None, {}), table_folder(table, scale, None), sketched=True)
    firsts = (next(iter(jobs.of(row, 1))) for row in table.rows)
    return sum(_of(job) for job in firsts)


def _of(job: Job) -> float:
    try:
        resolved: Resolved = job.program()
    except (BertcError, SpecError):  # it begins with a run that is not there yet
        return 0.0
    return sum(
        stage.steps * stage.batch * executed_flops(stage, stage.batch).train
        for stage in resolved.stages
    )
