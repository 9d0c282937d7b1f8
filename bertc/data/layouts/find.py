"""Which file is which part of a task: by name in a folder, or after the beginning of a name."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bertc.data.layouts.table import Rows
from bertc.diagnostics import DataError, MissingInputError, listed
from bertc.storage.endings import PACKED
from bertc.storage.paths import is_file, is_folder, user_path


class Part(NamedTuple):
    """Where a part is; ``language`` is that of its rows, if the file has others too."""

    source: Rows
    language: str = ""


Parts = dict[str, Part]
"""By name: ``train``, the parts to judge by (``dev``, ``dev_matched``, ``dev-de``), tests."""


def files_of(data: str) -> dict[str, Path]:
    """The files of a folder by name, or those of its folder whose names begin as ``data`` does.

    Such a name is told without that beginning: for ``stsb-de``, ``train.csv`` is
    ``stsb-de-train.csv``.

    Raises:
        MissingInputError: there are none.
        DataError: ``data`` is a file.
    """
    path = user_path(data)
    if is_file(path):
        raise DataError(f"{path} is a file, a folder expected", f"{path.parent}")
    if is_folder(path):
        return {file.name: file for file in sorted(path.iterdir()) if not _hidden(file)}
    folder = sorted(path.parent.iterdir()) if is_folder(path.parent) else []
    begun = [file for file in folder if re.match(re.escape(path.name) + r"[-._]", file.name)]
    if not path.name or not begun:
        raise MissingInputError(f"no folder {path}, and no file that begins so", "check the path")
    return {file.name[len(path.name) + 1 :]: file for file in begun}


def first(files: dict[str, Path], names: Iterable[str]) -> Path | None:
    """The first name that is there, packed or not."""
    for name in names:
        for packing in ("", *PACKED):
            if name + packing in files:
                return files[name + packing]
    return None


def only(files: dict[str, Path], pattern: str, data: str) -> Path | None:
    """The one file whose name matches.

    Raises:
        DataError: there are several.
    """
    found = [path for name, path in files.items() if re.search(pattern, name.lower())]
    if len(found) > 1:
        raise DataError(
            f"{data}: {listed(path.name for path in found)} could each be the one part",
            "write how the names of the right files begin after the folder, as in wikiann/en",
        )
    return found[0] if found else None


def packed(pattern: str) -> str:
    """A pattern for the whole of a name, which also may be packed."""
    return rf"^(?:{pattern})(?:{'|'.join(map(re.escape, PACKED))})?$"


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")
