"""File formats by the ending of a name: rows of columns, text, or neither."""

from pathlib import Path

PACKED = (".gz", ".zst")
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")
"""Endings of files whose rows have columns; all other files are text."""
NO_TEXT = (".json", ".html", ".xml", ".pdf", ".docx", ".zip", ".tar", ".tgz", ".xz", ".bz2", ".7z")
"""Endings of files that are never plain text, whatever bytes they hold."""


def suffix(path: Path) -> str:
    """The ending that names the format, without that of the compression."""
    return (path.with_suffix("") if path.suffix in PACKED else path).suffix


def no_text(path: Path) -> tuple[str, str]:
    """Message and help for a file whose ending is in ``NO_TEXT``."""
    return (
        f"{path}: a {suffix(path)} file is neither plain text nor rows of columns",
        f"bertc reads text, and columns of {', '.join(FORMATS)} files, "
        f"each also with {' or '.join(PACKED)}",
    )
