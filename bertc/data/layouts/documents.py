"""JSON files that are not tables, and their members; errors name the path."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from bertc.base.diagnostics import DataError, listed, nearest
from bertc.data.layouts.table import opened_file
from bertc.data.sources.streams import chunks, decode

JsonValue = TypeVar("JsonValue", str, int, list[Any], dict[str, Any])

_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "an object"}
_DECODER = json.JSONDecoder()


def read_document(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        MissingInputError: it is not there.
        DataError: it is damaged, or has several values; names the line.
    """
    values = list(json_values(path))
    if len(values) > 1:
        raise DataError(f"{values[1][0]}: text after the end of the JSON value, one value expected")
    return values[0][1]


def json_values(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON values of a file in order, each with the place where it begins.

    Raises:
        MissingInputError: the file is not there.
        DataError: it is empty or damaged; names the line.
    """
    with opened_file(path) as file:
        content = decode(b"".join(chunks(file)), path, 1)
    at, line = _blank(content, 0), 1
    line += content.count("\n", 0, at)
    if at == len(content):
        raise DataError(f"{path}:1: the file is empty", "a JSON object")
    while at < len(content):
        try:
            value, end = _DECODER.raw_decode(content, at)
        except json.JSONDecodeError as error:
            raise DataError(
                f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg.lower()}",
                "the file may be cut short; copy or download it again",
            ) from None
        except RecursionError:
            raise DataError(f"{path}:{line}: not JSON: too deep") from None
        yield f"{path}:{line}", value
        after = _blank(content, end)
        line += content.count("\n", at, after)
        at = after


def member(thing: Any, name: str, kind: type[JsonValue], place: str) -> JsonValue:
    """The member of an object, checked to be of a type.

    Raises:
        DataError: ``thing`` is no object, or lacks the member, or has one of another type.
    """
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


def _blank(content: str, at: int) -> int:
    """The end of the white space that begins at ``at``."""
    while at < len(content) and content[at] in " \t\r\n":
        at += 1
    return at
