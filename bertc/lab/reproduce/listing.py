"""All shipped tables: name, number of rows, question and paper."""

import json
from dataclasses import dataclass

import bertc
from bertc.lab.reproduce.reading import read_table, shipped_tables
from bertc.lab.reproduce.table import Table


@dataclass(frozen=True)
class TableList:
    """The shipped tables."""

    tables: tuple[Table, ...]
    is_sound = True

    def as_table(self) -> str:
        """A line a table."""
        lines = [
            [table.name, str(len(table.rows)), f"{table.asks} {table.paper}, {table.place}"]
            for table in self.tables
        ]
        return str(bertc.Table(["table", "rows", "question and paper"], lines))

    def as_json(self) -> str:
        """The tables as one JSON object."""
        facts = {"name", "paper", "place", "asks"}
        tables = [
            {**table.model_dump(include=facts), "rows": len(table.rows)} for table in self.tables
        ]
        return json.dumps({"schema": 1, "tables": tables}, indent=1)


def listing() -> TableList:
    """Every shipped table."""
    return TableList(tuple(map(read_table, shipped_tables())))
