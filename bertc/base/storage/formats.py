"""Formats of files by the ending of a name, on this machine or in a store."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PACKED = (".gz", ".zst")
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")
"""Endings of files whose rows have columns; all other files are text."""
NO_TEXT = (".json", ".html", ".xml", ".pdf", ".docx", ".zip", ".tar", ".tgz", ".xz", ".bz2", ".7z")
"""Endings of files that are never plain text, whatever bytes they hold."""
_MADE_TEXT = {
    ".json": "an object a line: name it {1}.jsonl; a list: jq -c '.[]' {0} > {1}.jsonl",
    ".bz2": "bzip2 -dc {0} | gzip > {1}.gz",
    ".xz": "xz -dc {0} | gzip > {1}.gz",
    ".zip": "unzip {0} -d {1}, and name the files in it",
}


@dataclass(frozen=True)
class FileAt:
    """A file in a store: what its readers use of a path; ``version`` changes with its content."""

    address: str
    size: int
    version: str

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """Its name in its folder."""
        return PurePosixPath(self.address.partition("?")[0]).name

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return PurePosixPath(self.name).suffix


AnyFile = Path | FileAt


def suffix(path: AnyFile) -> str:
    """The ending that names the format, without that of the compression."""
    return Path(path.name).with_suffix("").suffix if path.suffix in PACKED else path.suffix


def no_text(path: AnyFile) -> tuple[str, str]:
    """Message and help for a file whose ending is in ``NO_TEXT``."""
    said = f"{path}: a {suffix(path)} file is neither plain text nor rows of columns"
    if way := _MADE_TEXT.get(suffix(path)):
        return said, way.format(path, str(path).removesuffix(path.suffix))
    reads = f"bertc reads text, and columns of {', '.join(FORMATS)} files"
    return said, f"{reads}, each also with {' or '.join(PACKED)}"
