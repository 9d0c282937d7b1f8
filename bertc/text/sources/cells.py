"""Cells of tables as text, label, number or list; else a ``DataError`` that names the place."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

from bertc.base.diagnostics import DataError, listed, nearest

LONGEST_LABEL = 40
"""Characters of a label; a longer one is rather a text."""
PART = re.compile(r"\w+(?:[-_]\w+)*|\S")
"""Words, also those that hyphens join, and marks (gliner tokenizer.py, WhitespaceTokenSplitter)."""
_NAMED = "labels=[...]: unnamed they are those of the training file"
_EACH = "one in each row; classify(..., labels=many) reads any number, in lists too"
ITEM_END = "\x1f\x1f"
"""The end of an item of a list that is read as text; text itself may have one such sign."""
Bounds = tuple[float, float]
NO_ANSWER = (None, "")
"""Cells without a label or score, in files that need none."""


def text(cell: Any, place: str, column: str) -> str:
    """The text in a cell, which may be empty."""
    if not isinstance(cell, str):
        inside = isinstance(cell, dict) and next(iter(cell), "")
        help = f'"{column}.{inside}" names a member of it' if inside else ""
        raise DataError(f"{place}: {column!r} is {_kind(cell)}, text expected", help)
    if not cell.isascii():
        try:
            cell.encode()
        except UnicodeEncodeError:
            message = f"{place}: {column!r} has half of a surrogate pair, whole characters expected"
            raise DataError(message) from None
    return cell


def label(cell: Any, place: str, column: str) -> str:
    """The label in a cell, numbers and booleans as text; empty if it is unknown."""
    match cell:
        case None:
            return ""
        case str():
            return text(cell, place, column).strip()
        case int():
            return str(cell).lower()  # true or false, if it is one of them
        case float() if cell.is_integer():
            return str(int(cell))
    raise DataError(f"{place}: {column!r} is {_kind(cell)}, a label expected")


def known_label(
    name: str, labels: Sequence[str], place: str, what: str = "label", layout: str = ""
) -> str:
    """The known label that is equal after NFC; ``layout`` is the help for files of another."""
    if alike := [x for x in labels if x == name or normalize("NFC", x) == normalize("NFC", name)]:
        return alike[0]
    choices = listed([repr(label) for label in labels])
    if not name:
        help = f"one of {choices}" if labels else ""
        raise DataError(f"{place}: no {what}", "; ".join(filter(None, (help, layout))))
    if None not in map(finite, (name, *labels)):
        help = f"regress(...) learns numbers, classify only those {what}s it has seen"
    else:
        near = nearest(name, labels)
        helps = (near and f"did you mean {near!r}?", layout)
        help = "; ".join(filter(None, helps)) or f"correct it, or name every {what} in {_NAMED}"
    raise DataError(f"{place}: unknown {what} {name[:60]!r}, one of {choices} expected", help)


def label_in(
    cell: Any,
    place: str,
    column: str,
    labels: Sequence[str],
    hidden: Sequence[object],
    text_column: str = "",
) -> str | None:
    """The label in a cell, one of ``labels`` if there are any; None for values in ``hidden``."""
    if text_column and isinstance(cell, list):
        raise DataError(f"{place}: {column!r} is a list, a label expected", _EACH)
    name = normalize("NFC", label(cell, place, column))
    if name in hidden:
        return None
    if name in labels or (name and not labels):
        return name
    layout = _EACH if text_column and (not name or name.startswith("[")) else ""
    if text_column and max(map(len, (name, *labels))) > LONGEST_LABEL:
        layout = swapped(text_column, column)
    return known_label(name, labels, place, layout=layout)


def labels_in(
    cell: Any, place: str, column: str, separator: str, known: Sequence[str]
) -> tuple[str, ...]:
    """The labels in a cell, a list (in text as JSON) or text parted by ``separator``, each once."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        try:
            cell = json.loads(cell)
        except ValueError:
            raise DataError(f"{place}: {column!r} is no list: {cell[:60]}", "a JSON list") from None
    elif isinstance(cell, str):
        cell = [part for part in cell.split(separator) if part.strip()]
    elif not isinstance(cell, list):
        cell = [cell]
    names = dict.fromkeys(normalize("NFC", label(item, place, column)) for item in cell)
    ok = (n if n and (not known or n in known) else known_label(n, known, place) for n in names)
    return tuple(ok)


def flag(cell: Any, place: str, column: str) -> bool:
    """The truth in a cell: 1, 0, true or false."""
    name = label(cell, place, column).lower()
    if name not in ("0", "1", "true", "false"):
        raise DataError(f"{place}: {column!r} is {name[:60]!r}, 0 or 1 expected, or a truth")
    return name in ("1", "true")


def swapped(text: str, label: str) -> str:
    """The help where labels are texts."""
    return f"if the columns are swapped: text={label}, label={text}"


def finite(cell: Any) -> float | None:
    """The finite number in a cell, None if it is something else."""
    try:
        value = math.nan if isinstance(cell, bool) or "_" in str(cell) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def number(
    cell: Any, place: str, column: str, limits: Bounds | None = None, text_column: str = ""
) -> float:
    """The finite number in a cell, within limits."""
    expected = "a number" if limits is None else f"a number from {limits[0]:g} to {limits[1]:g}"
    value = finite(cell)
    if value is None:
        spelled = repr(cell[:60]) if isinstance(cell, str) else str(cell)[:60]
        help = "classify learns labels, regress numbers" if text_column else ""
        if text_column and len(str(cell)) > LONGEST_LABEL:
            help = swapped(text_column, column)
        elif isinstance(cell, str) and finite(pointed := cell.replace(",", ".", 1)) is not None:
            help = f"{pointed.strip()}, with a decimal point"
        raise DataError(f"{place}: {column!r} is {spelled}, {expected} expected", help)
    if limits and not limits[0] <= value <= limits[1]:
        raise DataError(f"{place}: {column!r} is {value:g}, {expected} expected")
    return value


def words(cell: Any, place: str, column: str) -> tuple[str, ...]:
    """The words in a cell: a list of labels, or text split at white space."""
    if isinstance(cell, str):
        return tuple(text(cell, place, column).split())
    if not isinstance(cell, list):
        raise DataError(f"{place}: {column!r} is {_kind(cell)}, a list expected")
    return tuple(label(item, f"{place}, {column}[{i}]", column) for i, item in enumerate(cell))


def span_tags(cell: Any, count: int, place: str, column: str) -> tuple[str, ...] | None:
    """Tags of words by a list of spans [first, last, name]; None of another cell."""
    if not isinstance(cell, list) or any(not isinstance(item, list) for item in cell):
        return None
    tags = ["O"] * count
    for item in cell:
        match item:
            case [int(a), int(b), str(name)] if {*tags[a : b + 1]} == {"O"} and 0 <= a <= b < count:
                tags[a : b + 1] = [f"B-{name}", *[f"I-{name}"] * (b - a)]
            case _:
                message = f"{place}: {column!r} has {str(item)[:60]}, a span of words expected"
                raise DataError(message, "[first, last, name], words from 0, none in two of them")
    return tuple(tags)


def letters(cell: Any, place: str, column: str) -> tuple[str, ...]:
    """The letters of a text, without white space; or a list, as of words."""
    return tuple("".join(cell.split())) if isinstance(cell, str) else words(cell, place, column)


def texts(cell: Any, place: str, column: str) -> tuple[str, ...]:
    """The list of texts in a cell."""
    if not isinstance(cell, list):
        raise DataError(f"{place}: {column!r} is {_kind(cell)}, a list of texts expected")
    return tuple(text(item, place, f"{column}[{i}]") for i, item in enumerate(cell))


def items(cell: list[Any], place: str, column: str, ids: bool = False, below: int = 0) -> str:
    """Words or whole numbers of a list, with ``ITEM_END`` after each; token ids are ``below``."""
    kind: type = int if ids or isinstance(next(iter(cell), 0), int) else str
    for item in cell:
        blank = isinstance(item, str) and item.split() != [item]
        if (type(item), blank) != (kind, False):
            expected = "a word without blanks" if kind is str else "a whole number"
            help = "_ may take the place of blanks" if blank else ""
            message = f"{place}: {column!r} has {_kind(item)} in its list, {expected} expected"
            raise DataError(message, help)
        if ids and not 0 <= item < (below or item + 1):
            known = f"from 0 to {below - 1}" if below else "from 0 on"
            raise DataError(f"{place}: {column!r} has token id {item}, {known} expected")
    return "".join(f"{item}{ITEM_END}" for item in cell)


def _kind(cell: Any) -> str:
    kinds = {type(None): "empty", dict: "an object", list: "a list"}
    return kinds.get(type(cell), f"{cell!r}"[:60])
