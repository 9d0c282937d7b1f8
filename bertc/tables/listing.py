"""All shipped tables: question, paper, rows, and FLOPs of training them at each scale."""

import json
from dataclasses import dataclass

from bertc.estimate.units import flops_text
from bertc.resources import folder
from bertc.tables.drawing import drawn
from bertc.tables.reading import read_table, shipped_tables
from bertc.tables.table import Table

COSTS = "costs.json"
"""Beside the tables: FLOPs by table and scale, counted by docs/tables.py."""


@dataclass(frozen=True)
class TableList:
    """The shipped tables, and by name FLOPs by scale of training each row once."""

    tables: tuple[Table, ...]
    flops: dict[str, dict[str, float]]
    is_sound = True

    def as_table(self) -> str:
        """A line a table: name, rows, FLOPs of each scale, question and paper."""
        head, *lines = drawn(*self.columns()).splitlines()
        asked = (f"{table.asks} {table.paper}, {table.place}" for table in self.tables)
        texts = (
            f"{line.ljust(len(head))}  {text}" for line, text in zip(lines, asked, strict=True)
        )
        return "\n".join((head, *texts))

    def columns(self) -> tuple[list[str], list[list[str]]]:
        """Head and lines of a table of them."""
        scales = [*next(iter(self.flops.values()))]
        lines = [
            [table.name, str(len(table.rows)), *map(flops_text, self.flops[table.name].values())]
            for table in self.tables
        ]
        return ["table", "rows", *scales], lines

    def as_json(self) -> str:
        """The tables as one JSON object."""
        tables = [
            {
                **{name: getattr(table, name) for name in ("name", "paper", "place", "asks")},
                "rows": len(table.rows),
                "flops": self.flops[table.name],
            }
            for table in self.tables
        ]
        return json.dumps({"schema": 1, "tables": tables}, indent=1)


def listing() -> TableList:
    """Every shipped table."""
    flops = json.loads((folder("specs") / "tables" / COSTS).read_text(encoding="utf-8"))
    return TableList(tuple(map(read_table, shipped_tables())), flops)
