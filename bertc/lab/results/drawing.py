"""Files of pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertc import CannotWriteError

_METADATA: Mapping[str, dict[str, str | None]] = {"svg": {"Date": None}, "png": {}}
"""Facts in a file next to the picture: an SVG without the time."""


def save(figure: Any, path: Path, described: str = "") -> None:
    """Write a matplotlib figure: ``.svg``, and any other file as a PNG.

    ``described`` is kept in the file. The same figure gives the same file.
    """
    from matplotlib import rc_context

    kind = "svg" if path.suffix.lower() == ".svg" else "png"
    metadata = _METADATA[kind] | {"Description": described}
    try:
        with rc_context({"svg.hashsalt": "bertc", "svg.fonttype": "none"}):
            figure.savefig(path, format=kind, metadata=metadata)
    except OSError as error:
        raise CannotWriteError(
            f"cannot write {path}: {error.strerror}", help="make room, or name another file"
        ) from error
