"""Files of a task's parts, by their names and by what they hold."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bertc.base.diagnostics import DataError, MissingInputError, listed
from bertc.base.storage.paths import (
    FORMATS,
    PACKED,
    check_path,
    is_file,
    is_folder,
    suffix,
    user_path,
)
from bertc.base.storage.plain_file import opened
from bertc.ir.data import Hf

ExampleSource = Path | Hf
SAMPLE_BYTES = 1 << 16
"""Bytes at the beginning of a file that are looked at."""
FEWEST_WORDS = 4
"""Lines with a word that a file needs to be recognised."""

_SPAN_TAG = re.compile(r"O|[BIESLU]-\S+")
"""Tags of spans: IOB, BIO, BIOES and BILOU."""


class DataPart(NamedTuple):
    """A part: a source, the language of its rows, ``sts`` for STS-B's columns, or a search.

    Unless ``labelled`` some of its rows may lack their answers.
    """

    source: ExampleSource
    language: str = ""
    sts: bool = False
    search: bool = False
    labelled: bool = True

    @property
    def file(self) -> Path:
        """The file or folder of an official task."""
        assert isinstance(self.source, Path), "only custom tasks read data sets"
        return self.source


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


def has_tagged_words(path: Path) -> bool:
    """True if every line of the file's beginning is empty, or a word with its tags.

    Columns are parted by tabs, in CoNLL-U with comments between; or by spaces, if the last one has
    tags of spans. Compressed files and tables with another ending are not looked at.
    """
    if path.suffix in PACKED or suffix(path) in FORMATS:
        return False
    with opened(path) as file:
        sample = file.read(SAMPLE_BYTES)
    if len(sample) == SAMPLE_BYTES:
        sample = sample.rpartition(b"\n")[0]
    lines = sample.decode("utf-8", errors="replace").split("\n")
    rows = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(rows) < FEWEST_WORDS or not any(not line.strip() for line in lines[:-1]):
        return False
    tabs = "\t" in rows[0]
    columns = [row.split("\t" if tabs else None) for row in rows]
    width, tags = len(columns[0]), [fields[-1] for fields in columns]
    if width < 2 or any(len(fields) != width for fields in columns):
        return False
    if all(map(_SPAN_TAG.fullmatch, tags)):
        return True
    one_word_each = all(len(field.split()) == 1 for fields in columns for field in fields)
    return tabs and one_word_each and 2 * len(set(tags)) <= len(tags)


def is_tagged_file(path: Path) -> bool:
    """True by the ending of its name, or by what it holds."""
    return suffix(path) in (".conll", ".conllu", ".iob", ".iob2", ".bio") or has_tagged_words(path)
