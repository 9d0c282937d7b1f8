"""Tables read from their files; errors name the key."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bertc import DataError, MissingInputError
from bertc.lab.reproduce.table import Before, Claim, Measure, Need, Row, Scale, Table
from bertc.lab_api import Table as TextTable, shipped_specs

TOML = ".toml"
SCALES = "scales"
"""The file with what scales are unless a table says otherwise."""
_PARTS: Mapping[str, type[BaseModel]] = {
    "rows": Row, "measures": Measure, "claims": Claim, "before": Before, "needs": Need,
    "scales": Scale,
}  # fmt: skip


def _folder() -> Path:
    """The folder of the shipped tables, next to the shipped specs."""
    return next(iter(shipped_specs().values())).parent / "tables"


def shipped_tables() -> dict[str, Path]:
    """Shipped tables: files by name."""
    paths = sorted(_folder().glob(f"*{TOML}"))
    return {path.stem: path for path in paths if path.stem != SCALES}


def listing(as_json: bool) -> str:
    """A line a shipped table, or all as one JSON object."""
    tables = [*map(read_table, shipped_tables())]
    if as_json:
        facts = {"name", "paper", "place", "asks"}
        rows = [{**t.model_dump(include=facts), "rows": len(t.rows)} for t in tables]
        return json.dumps({"schema": 1, "tables": rows}, indent=1)
    lines = [(t.name, str(len(t.rows)), f"{t.asks} {t.paper}, {t.place}") for t in tables]
    return str(TextTable(("table", "rows", "question and paper"), lines))


def read_table(name: str) -> Table:
    """Read a shipped table by its name, or one of your own by its file."""
    shipped = shipped_tables()
    if name not in shipped and not name.endswith(TOML):
        near = "".join(get_close_matches(name, shipped, 1))
        help = f"did you mean {near}?" if near else "bertc reproduce lists the tables"
        raise MissingInputError(f"there is no table `{name[:60]}`", help)
    path = shipped.get(name, Path(name))
    table, usual = _parse_table(path), _parse_table(_folder() / f"{SCALES}{TOML}")
    scales = table.get("scales", {})
    if not isinstance(scales, dict) or not all(isinstance(one, dict) for one in scales.values()):
        raise _mistake(path, "scales", "tables [scales.NAME] expected")
    merged = {one: {**usual.get(one, {}), **scales.get(one, {})} for one in {**usual, **scales}}
    facts = {"name": path.stem, "file": name, "scales": merged}
    try:
        return Table.model_validate({**table, **facts})
    except ValidationError as error:
        # A mistyped name explains another that is missing.
        first = min(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
        raise _mistake(path, _place(first["loc"], table), _explain(first)) from None


def _explain(error: ErrorDetails) -> str:
    """A mistake that pydantic reports, with the allowed values."""
    match error["type"]:
        case "extra_forbidden":
            (*place, name), known = map(str, error["loc"]), Table.model_fields
            known = _PARTS[place[0]].model_fields if place else known
            near = "".join(get_close_matches(name, known, 1))
            help = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
            return f"unknown key; {help}"
        case "missing":
            return "the key is missing"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            rule = error["msg"].replace(" after validation", "").partition(" should ")[2]
            return f"it should {rule}, not {error['input']!r:.60}"


def _place(loc: Sequence[int | str], table: Mapping[str, Any]) -> str:
    """The key of a mistake, with entries of lists by their names: ``measures.SST-2.shown``."""
    there: Any = table
    words = list[str]()
    for part in (key for key in loc if key != "[key]"):
        try:
            there = there[part]
        except (KeyError, IndexError, TypeError):
            there = None
        name = there.get("name", there.get("says", part)) if isinstance(there, dict) else part
        words.append(str(name if isinstance(part, int) else part))
    return ".".join(words) or "the table"


def _parse_table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MissingInputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise DataError(
            f"{path} is no TOML: {error}", help="docs/how-to/tables.md has one"
        ) from None


def _mistake(path: Path, place: str, what: str) -> DataError:
    return DataError(f"{path}, {place}: {what}", help="docs/how-to/tables.md has all keys")
