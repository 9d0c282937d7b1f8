"""Files from strangers, read as far as a limit."""

import json
from pathlib import Path
from typing import Any

from bertc.diagnostics import DataError, MissingInputError

LARGEST_FILE_BYTES = 256 * 2**20


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none.

    Raises:
        DataError: if it is something else.
    """
    if not path.is_file():
        return {}
    try:
        found = json.loads(read_content(path))
    except (ValueError, RecursionError):
        raise DataError(f"{path} is no JSON", help="copy it again from its source") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} is no JSON object", help="copy it again from its source")
    return found


def read_content(path: Path) -> bytes:
    """The bytes of a file, of at most ``LARGEST_FILE_BYTES``.

    Raises:
        MissingInputError: if it cannot be read.
        DataError: if it is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise MissingInputError(
            f"{path} cannot be read: {(error.strerror or '').lower()}"
        ) from None
    if len(content) > LARGEST_FILE_BYTES:
        raise DataError(f"{path}: it is larger than {LARGEST_FILE_BYTES // 2**20} MiB")
    return content


def shown(value: Any) -> str:
    """A value in a message: as JSON, on one line, shortened."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
