"""What a file holds, as far as the ending of its name says it."""

from pathlib import Path

PACKED = (".gz", ".zst")
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")
"""Endings of files whose rows have columns; what ends otherwise is text."""
NO_TEXT = (".json", ".html", ".xml", ".pdf", ".docx", ".zip", ".tar", ".tgz", ".xz", ".bz2", ".7z")
"""Endings of files that are no plain text, whatever bytes they hold."""


def suffix(path: Path) -> str:
    """The ending that says what a file holds, whether it is packed or not."""
    return (path.with_suffix("") if path.suffix in PACKED else path).suffix


def no_text(path: Path) -> tuple[str, str]:
    """Why a file of such an ending is not read, and what is."""
    return (
        f"{path}: a {suffix(path)} file is neither plain text nor rows of columns",
        f"bertc reads text, and columns of {', '.join(FORMATS)} files, "
        f"each also with {' or '.join(PACKED)}",
    )
