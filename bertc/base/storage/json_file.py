"""Untrusted JSON: size, depth, numbers and duplicate keys are checked before it is used."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError
from bertc.base.storage.plain_file import read_bytes

MAX_INTEGER_DIGITS = 40  # transformers writes int(1e30), of 31 digits, for no limit


def read_json(path: Path, max_bytes: int) -> dict[str, Any]:
    """The object in a JSON file of at most ``max_bytes``."""
    content = read_bytes(path, max_bytes)
    try:
        return parse_json(content, max_bytes)
    except ValueError as error:
        raise DataError(f"{path} {error}", help="copy the file again from its source") from None


def parse_json(content: bytes, max_bytes: int) -> dict[str, Any]:
    """The JSON object in ``content``; each key once."""
    if len(content) > max_bytes:
        raise ValueError(f"is larger than {max_bytes} bytes")
    try:
        value = json.loads(content, object_pairs_hook=_unique, parse_int=_integer)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("is no JSON") from None
    if not isinstance(value, dict):
        raise ValueError("is no JSON object")
    if b"\\ud" in content.lower() and not _is_text(value):
        raise ValueError("has half of a surrogate pair, whole characters expected")
    return value


def _is_text(value: dict[str, Any]) -> bool:
    """True if all strings are valid Unicode: JSON may escape half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"says {shown(counts.most_common(1)[0][0])} twice")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"has a number of {len(digits)} digits")
    return int(digits)


def shown(value: Any) -> str:
    """A value in a message: as JSON, on one line, shortened."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "..."
    return text if len(text) <= 60 else f"{text[:57]}..."


def shown_name(name: str) -> str:
    """A name from a file in a message: bare where it is short and plain."""
    return name if len(name) <= 100 and name.isprintable() else shown(name)
