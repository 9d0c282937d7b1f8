"""All shipped tables: name, number of rows, question and paper."""

import json

from bertc import Table
from bertc.lab.reproduce.reading import read_table, shipped_tables


def listing(as_json: bool) -> str:
    """A line a shipped table, or all as one JSON object."""
    tables = [*map(read_table, shipped_tables())]
    if as_json:
        facts = {"name", "paper", "place", "asks"}
        rows = [{**t.model_dump(include=facts), "rows": len(t.rows)} for t in tables]
        return json.dumps({"schema": 1, "tables": rows}, indent=1)
    lines = [(t.name, str(len(t.rows)), f"{t.asks} {t.paper}, {t.place}") for t in tables]
    return str(Table(("table", "rows", "question and paper"), lines))
