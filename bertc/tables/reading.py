"""Tables read from their files; a mistake says where it stands."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bertc.diagnostics import DataError, MissingInputError, escaped, listed, nearest
from bertc.resources import folder
from bertc.storage.plain_file import read_text
from bertc.tables.table import Before, Claim, EvalOptions, Measure, Need, Row, Scale, Table

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
        return _read(shipped[name], name)
    if name.endswith(TOML):
        return _read(Path(name), name)
    near = nearest(name, shipped)
    help = f"did you mean {near}?" if near else f"tables: {listed(shipped, limit=600)}"
    raise MissingInputError(f"there is no table `{name[:60]}`", help)


def _read(path: Path, name: str) -> Table:
    found = _parsed(path)
    own = found.get("scales", {})
    if not isinstance(own, dict):
        raise _mistaken(path, "scales", "a table [scales.NAME] expected")
    for each, scale in own.items():
        if not isinstance(scale, dict):
            raise _mistaken(path, f"scales.{each}", f"a table [scales.{each}] expected")
    usual = _parsed(folder("specs") / "tables" / f"{SCALES}{TOML}")
    scales = {name: {**usual.get(name, {}), **own.get(name, {})} for name in {**usual, **own}}
    try:
        told = {"name": path.stem, "file": name, "scales": scales}
        told["own_scales"] = [each for each in own if "spec" in own[each]]
        return Table.model_validate({**found, **told})
    except ValidationError as error:
        # A name with a slip explains another that is missing.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        raise _mistaken(path, _place(first["loc"], found), _said(first)) from None


_FORMS = {
    "string": "a text in quotes",
    "tuple": "a list in brackets",
    "dict": "a table of names and values",
    "model": "a table of names and values",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "finite": "a finite number",
}
"""Forms of values, by the first word of the name that pydantic gives to a mistake."""


def _said(error: ErrorDetails) -> str:
    """A mistake that pydantic found, in this tool's words."""
    kind, limits = error["type"], error.get("ctx", {})
    given = escaped(repr(error["input"]))[:60]
    match kind:
        case "extra_forbidden":
            name, known = str(error["loc"][-1]), _known(error["loc"])
            near = nearest(name, known)
            there = f"did you mean {near}?" if near else f"there is {listed(known, limit=300)}"
            return f"nothing is called {name[:60]} here; {there}"
        case "missing":
            return "it has to be there, and is not"
        case "literal_error":
            return f"it is one of {limits['expected'].replace(' or ', ', ')}, not {given}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            (limit,) = limits.values()
            words = "more than" if kind == "greater_than" else "at least"
            return f"it is {'at most' if 'less' in kind else words} {limit}, not {given}"
        case "string_too_short":
            return "it is empty"
        case "too_short":
            return f"it has at least {limits['min_length']} entries, not {len(error['input'])}"
        case "string_too_long":
            return f"it has at most {limits['max_length']} characters"
        case "string_pattern_mismatch":
            return f"{given} has characters that names have not, or too many: {limits['pattern']}"
        case "value_error":
            return str(limits["error"])
        case _:
            return f"{_FORMS.get(kind.partition('_')[0], 'another value')} expected, not {given}"


def _place(loc: Sequence[int | str], found: Mapping[str, Any]) -> str:
    """The place of a mistake, with entries of lists by their names: ``measures.SST-2.shown``."""
    there: Any = found
    words = list[str]()
    for part in (each for each in loc if each != "[key]"):
        known = isinstance(part, int) or part in there if isinstance(there, list | dict) else False
        there = there[part] if known else None
        name = there.get("name", there.get("says", part)) if isinstance(there, dict) else part
        words.append(str(name if isinstance(part, int) else part))
    return ".".join(words) or "the table"


def _known(loc: Sequence[int | str]) -> list[str]:
    """The names that may stand where one does not."""
    if "eval" in loc:
        return [*EvalOptions.__annotations__]
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
