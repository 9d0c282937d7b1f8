"""Files of a task's parts, by their names in a folder or by a common prefix."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bertc.base.diagnostics import DataError, MissingInputError, listed
from bertc.base.storage.paths import PACKED, check_path, is_file, is_folder, user_path
from bertc.tasks.layouts.table import ExampleSource


class DataPart(NamedTuple):
    """A part: a source, the language of its rows, ``sts`` for STS-B's columns, or a search."""

    source: ExampleSource
    language: str = ""
    sts: bool = False
    search: bool = False


DataParts = dict[str, DataPart]
"""Parts by name: ``train``, ``dev``, ``dev_matched``, ``dev-de``, ``test`` and the like."""


def files_of(data: str) -> dict[str, Path]:
    """Files of the folder ``data``, or with the prefix ``data``, by the rest of their names."""
    path = user_path(data)
    if is_file(path):
        raise DataError(f"{path} is a file, a folder expected", f'name its folder: "{path.parent}"')
    if is_folder(path):
        return {file.name: file for file in sorted(path.iterdir()) if file.name[0] != "."}
    siblings = sorted(path.parent.iterdir()) if is_folder(path.parent) else []
    begins = re.compile(re.escape(path.name) + r"[-._]")
    prefixed = [file for file in siblings if begins.match(file.name) and is_file(file)]
    if not path.name or not prefixed:
        raise MissingInputError(f"no folder {path}, and no file with this prefix", check_path(path))
    return {file.name[len(path.name) + 1 :]: file for file in prefixed}


def first(files: dict[str, Path], names: Iterable[str]) -> Path | None:
    """The first file of ``names`` that exists, compressed or not."""
    for name in names:
        for packing in ("", *PACKED):
            if name + packing in files:
                return files[name + packing]
    return None


def only(files: dict[str, Path], pattern: str, data: str) -> Path | None:
    """The only file whose name matches, None if there is none."""
    matches = [path for name, path in files.items() if re.search(pattern, name.lower())]
    if len(matches) > 1:
        raise DataError(
            f"{data}: {listed(path.name for path in matches)} could each be the one part",
            "write how the names of the right files begin after the folder, as in wikiann/en",
        )
    return matches[0] if matches else None


def packed(pattern: str) -> str:
    """A pattern for a complete file name, compressed or not."""
    return rf"^(?:{pattern})(?:{'|'.join(map(re.escape, PACKED))})?$"
