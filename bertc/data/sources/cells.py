"""What stands in a cell: text, a label, a number, a list; whatever else says its place."""

import math
from collections.abc import Sequence
from typing import Any

from bertc.diagnostics import DataError, listed, nearest


def text(cell: Any, place: str, column: str) -> str:
    """Text, which may be empty.

    Raises:
        DataError: it is none.
    """
    if not isinstance(cell, str):
        raise DataError(f"{place}: {column!r} is {_kind(cell)}, text expected")
    if not cell.isascii():
        try:
            cell.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{place}: {column!r} has half of a surrogate pair, whole characters expected"
            ) from None
    return cell


def label(cell: Any, place: str, column: str) -> str:
    """A name, also of a number or of true and false; empty where it is not known.

    Raises:
        DataError: it is none.
    """
    match cell:
        case None:
            return ""
        case str():
            return text(cell, place, column).strip()
        case bool():
            return str(cell).lower()
        case int():
            return str(cell)
        case float() if cell.is_integer():
            return str(int(cell))
    raise DataError(f"{place}: {column!r} is {_kind(cell)}, a label expected")


def known(
    name: str, labels: Sequence[str], place: str, what: str = "label", layout: str = ""
) -> str:
    """The label, if it is one; ``layout`` says how its file has to be, if that may be the cause.

    Raises:
        DataError: it is not, or is empty; names those that are.
    """
    if name in labels:
        return name
    there = listed([repr(label) for label in labels])
    if not name:
        raise DataError(f"{place}: no {what}", f"one of {there}" if labels else "")
    near = nearest(name, labels)
    raise DataError(
        f"{place}: unknown {what} {name[:60]!r}, one of {there} expected",
        "; ".join(filter(None, [f"did you mean {near!r}?" if near else "", layout]))
        or f"name every {what}, or none: then they are read",
    )


def number(cell: Any, place: str, column: str, limits: tuple[float, float] | None = None) -> float:
    """A finite number, within limits.

    Raises:
        DataError: it is none.
    """
    expected = "a number" if limits is None else f"a number from {limits[0]:g} to {limits[1]:g}"
    try:
        value = math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        shown = repr(cell[:60]) if isinstance(cell, str) else str(cell)[:60]
        raise DataError(
            f"{place}: {column!r} is {shown}, {expected} expected",
            "classify learns labels, regress numbers",
        )
    if limits and not limits[0] <= value <= limits[1]:
        raise DataError(f"{place}: {column!r} is {value:g}, {expected} expected")
    return value


def words(cell: Any, place: str, column: str) -> tuple[str, ...]:
    """A list of labels or words, or text parted by white space.

    Raises:
        DataError: it is neither.
    """
    if isinstance(cell, str):
        return tuple(text(cell, place, column).split())
    if not isinstance(cell, list):
        raise DataError(f"{place}: {column!r} is {_kind(cell)}, a list expected")
    return tuple(label(one, f"{place}, {column}[{i}]", column) for i, one in enumerate(cell))


def texts(cell: Any, place: str, column: str) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        DataError: it is none.
    """
    if not isinstance(cell, list):
        raise DataError(f"{place}: {column!r} is {_kind(cell)}, a list of texts expected")
    return tuple(text(one, place, f"{column}[{i}]") for i, one in enumerate(cell))


def _kind(cell: Any) -> str:
    match cell:
        case None:
            return "empty"
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"{cell!r}"[:60]
