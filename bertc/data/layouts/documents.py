"""JSON files that are not tables, and their members; errors name the path."""

import json
from pathlib import Path
from typing import Any, TypeVar

from bertc.base.diagnostics import DataError, listed, nearest
from bertc.data.layouts.table import opened_file
from bertc.data.sources.streams import chunks, decode

JsonValue = TypeVar("JsonValue", str, int, list[Any], dict[str, Any])

_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


def read_document(path: Path) -> Any:
    """The value in a JSON file."""
    with opened_file(path) as file:
        content = decode(b"".join(chunks(file)), path, 1)
    if not content.strip():
        raise DataError(f"{path}:1: the file is empty", "a JSON object")
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg.lower()}",
            "the file may be cut short; copy or download it again",
        ) from None
    except RecursionError:
        raise DataError(f"{path}:1: not JSON: too deep") from None


def member(thing: Any, name: str, kind: type[JsonValue], place: str) -> JsonValue:
    """The member of an object, checked to be of a type."""
    if not isinstance(thing, dict):
        raise DataError(f"{place}: an object with {name!r} expected, not {thing!r}"[:300])
    if name not in thing:
        near = nearest(name, thing)
        raise DataError(
            f"{place}: no {name!r}; there are {listed(thing) or 'none'}",
            f"the nearest is {near!r}" if near else "",
        )
    value = thing[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{place}: {name!r} is {value!r}"[:200] + f", {_NAMES[kind]} expected")
    return value
