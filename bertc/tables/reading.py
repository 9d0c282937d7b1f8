"""Tables read from their files; a mistake says where it stands."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from bertc.diagnostics import DataError, MissingInputError, listed, nearest
from bertc.resources import folder
from bertc.storage.plain_file import read_text
from bertc.tables.table import Before, Claim, Measure, Need, Row, Scale, Table

TOML = ".toml"
SCALES = "scales"
"""The file with what scales are unless a table says otherwise."""
_LARGEST_BYTES = 2**20


def shipped_tables() -> dict[str, Path]:
    """Shipped tables: files by name."""
    paths = sorted((folder("specs") / "tables").glob(f"*{TOML}"))
    return {path.stem: path for path in paths if path.stem != SCALES}


def read_table(name: str) -> Table:
    """Read a shipped table by its name, or one of your own by its file.

    Raises:
        MissingInputError: if there is none.
        DataError: if it is no table; names the place.
    """
    shipped = shipped_tables()
    if name in shipped:
        return _read(shipped[name])
    if name.endswith(TOML):
        return _read(Path(name))
    near = nearest(name, shipped)
    help = f"did you mean {near}?" if near else f"tables: {listed(shipped, limit=600)}"
    raise MissingInputError(f"there is no table `{name[:60]}`", help)


def _read(path: Path) -> Table:
    found = _parsed(path)
    own = found.get("scales", {})
    if not isinstance(own, dict):
        raise _mistaken(path, "scales", "a table [scales.NAME] expected")
    usual = _parsed(folder("specs") / "tables" / f"{SCALES}{TOML}")
    scales = {name: {**usual.get(name, {}), **own.get(name, {})} for name in {**usual, **own}}
    try:
        return Table.model_validate({**found, "name": path.stem, "scales": scales})
    except ValidationError as error:
        # A name with a slip explains another that is missing.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        what = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            what = f"there is {listed(_known(first['loc']), limit=300)}, and no {first['loc'][-1]}"
        raise _mistaken(path, _place(first["loc"], found), what) from None


def _place(loc: Sequence[int | str], found: Mapping[str, Any]) -> str:
    """The place of a mistake, with entries of lists by their names: ``measures.SST-2.shown``."""
    there: Any = found
    words = list[str]()
    for part in loc:
        known = isinstance(part, int) or part in there if isinstance(there, list | dict) else False
        there = there[part] if known else None
        name = there.get("name", part) if isinstance(there, dict) else part
        words.append(str(name if isinstance(part, int) else part))
    return ".".join(words) or "the table"


def _known(loc: Sequence[int | str]) -> list[str]:
    """The names that may stand where one does not."""
    parts: dict[str, type[BaseModel]] = {
        "rows": Row,
        "measures": Measure,
        "claims": Claim,
        "before": Before,
        "needs": Need,
        "scales": Scale,
    }
    return [*(parts.get(str(loc[0]), Table) if len(loc) > 1 else Table).model_fields]


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path, _LARGEST_BYTES))
    except tomllib.TOMLDecodeError as error:
        raise DataError(
            f"{path} is no TOML: {error}", help="docs/how-to/tables.md has one"
        ) from None


def _mistaken(path: Path, place: str, what: str) -> DataError:
    return DataError(
        f"{path}, {place}: {what}", help="docs/how-to/tables.md says what stands where"
    )
