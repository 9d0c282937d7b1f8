"""A first look at text or examples: format, size, columns and labels.

Of large tables the beginning is read. A spec says what was guessed, to be changed there.
"""

import glob
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

from bertc import DataError
from bertc.base.storage.endings import FORMATS, NO_TEXT, PACKED, suffix
from bertc.base.storage.paths import is_file, is_folder, user_path
from bertc.base.storage.tagged import SAMPLE_BYTES as TAGGED_BYTES
from bertc.base.storage.tagged import are_tagged_words
from bertc.data.layouts.conll import tagging_parts
from bertc.data.layouts.documents import read_document
from bertc.data.sources.files import begin_as_text, has_columns, matching_files
from bertc.data.sources.streams import opened_stream
from bertc.data.sources.tables import ColumnSelection, column_names, records
from bertc.ir.learning.task import Tagging
from bertc.lab.starting.columns import Column, Roles, number_of, roles_of

SURVEYED_ROWS, CELL_CHARACTERS = 1000, 1 << 12
PACKED_BYTES = 3
"""Bytes of text in a byte of a compressed file, about; as prepared text assumes."""
LONGEST_COLUMN_NAME, MOST_NAME_WORDS = 40, 3
"""Characters and words of a column's name; a longer cell in the first line is an example's."""
DEV_PARTS = ("dev", "valid", "validation", "val")
"""Names in place of ``train`` of a file to judge by, the first that is there."""
_TRAIN = re.compile(r"(?<![a-z])train(?![a-z])", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?…。！？:;][\"'»”)\]]*$")


@dataclass(frozen=True)
class Survey:
    """Text or examples under a name, as a spec would name them.

    ``dev`` is a file to judge by, "" for none; of ``files`` with tags the first is learned from.
    ``version`` is that of SQuAD's files.
    """

    kind: Literal["text", "table", "tags", "questions"]
    name: str
    files: tuple[Path, ...]
    columns: tuple[Column, ...] = ()
    dev: str = ""
    version: int = 1

    @property
    def text_bytes(self) -> int:
        """Bytes of the text that is learned from, uncompressed, about."""
        files = self.files[:1] if self.kind == "tags" else self.files
        packed = (*PACKED, ".parquet")
        return sum(file.stat().st_size * PACKED_BYTES ** (file.suffix in packed) for file in files)

    @cached_property
    def roles(self) -> Roles:
        """Its columns by use."""
        return roles_of(self.columns)


def survey(name: str) -> Survey:
    """Look at a file, a folder or a pattern.

    Raises:
        MissingInputError: nothing is there.
        DataError: it is neither text nor rows of columns, or is damaged.
    """
    path = user_path(name)
    if is_folder(path):
        return survey(_in_folder(name.rstrip("/") or "/", path))
    if is_file(path) and suffix(path) == ".json":
        return _questions(name, path)
    if is_file(path) and _is_tagged(path):
        return _tags(name, path)
    one_table = is_file(path) and has_columns(path)
    files = (path,) if one_table else tuple(matching_files(name))
    begin_as_text(files)
    if has_columns(files[0]):
        return _table(name, files)
    return Survey("text", name, files)


def _in_folder(name: str, path: Path) -> str:
    """The training file of a folder, else the pattern of the ending that has the most bytes."""
    sizes, packed = Counter[str](), set[str]()
    for file in sorted(path.rglob("*"), key=lambda file: (file.stem.lower() != "train", file)):
        inside = file.relative_to(path)
        if not is_file(file) or any(part.startswith(".") for part in inside.parts):
            continue
        known = suffix(file) in (".json", *FORMATS)
        if inside.parent == Path() and _TRAIN.search(file.name) and (known or _is_tagged(file)):
            return f"{name}/{file.name}"
        if suffix(file) not in NO_TEXT:
            ending = suffix(file)
            sizes[ending] += file.stat().st_size
            packed |= {ending} if file.suffix in PACKED else set()
    if not sizes:
        raise DataError(
            f"{name} has no file with text", help=f"text, or {', '.join(FORMATS)}; packed as .gz"
        )
    ending = sizes.most_common(1)[0][0]
    return f"{glob.escape(name)}/**/*{ending}{'*' * (ending in packed)}"


def _is_tagged(path: Path) -> bool:
    ended = suffix(path) in (*FORMATS, *NO_TEXT)
    return not ended and are_tagged_words(_first_bytes(path, TAGGED_BYTES))


def _table(name: str, files: tuple[Path, ...]) -> Survey:
    """A table with its columns; numbered where its first line is no line of names."""
    with opened_stream(files[0]) as file:
        names = column_names(file)
    if not all(map(_is_name, names)) or len({*names}) < len(names):
        names = [str(number) for number in range(len(names))]
    with opened_stream(files[0]) as file:
        rows = records(file, ColumnSelection(required=(), optional=tuple(names)))
        cells = [[_shown(cell) for cell in row.cells] for row in islice(rows, SURVEYED_ROWS)]
    columns = tuple(
        Column(column, tuple(row[i] for row in cells)) for i, column in enumerate(names)
    )
    return Survey("table", name, files, columns, _dev_of(name))


def _shown(cell: object) -> str:
    return "" if cell is None else str(cell)[:CELL_CHARACTERS]


def _is_name(cell: str) -> bool:
    """True unless the cell of a first line reads like an example's: numbers, sentences, nothing."""
    plain = number_of(cell) is None and not _SENTENCE_END.search(cell.strip())
    return plain and len(cell) <= LONGEST_COLUMN_NAME and 0 < len(cell.split()) <= MOST_NAME_WORDS


def _dev_of(name: str) -> str:
    """The name of the file next to a training file that is there to judge by, "" for none."""
    path = Path(name)
    files = (path.with_name(_TRAIN.sub(part, path.name)) for part in DEV_PARTS)
    return next((str(dev) for dev in files if dev != path and is_file(user_path(dev))), "")


def _tags(name: str, file: Path) -> Survey:
    """The folder of a file of tags if names tell its parts, else that file alone."""
    folder = str(Path(name).parent)
    try:
        parts = {n: p.source for n, p in tagging_parts(Tagging(data=folder)).items()}
    except DataError:  # several files could each be one part
        parts = {}
    files = tuple(source for source in parts.values() if isinstance(source, Path))
    beside = _dev_of(name)  # also as valid, which is no part of a folder
    if file not in files or "train" not in parts or (beside and "dev" not in parts):
        return Survey("tags", name, (file,), dev=beside)
    return Survey("tags", folder, files, dev=str(parts.get("dev", "")))


def _questions(name: str, file: Path) -> Survey:
    """A file in SQuAD's layout; version 2 has questions without an answer."""
    document = read_document(file)
    if not isinstance(document, dict) or "data" not in document:
        raise DataError(
            f"{file}: a JSON file without the member data of SQuAD's",
            help=f"bertc reads text, {', '.join(FORMATS)}, CoNLL's columns and SQuAD's JSON",
        )
    version = 1 + ('"is_impossible": true' in json.dumps(document))
    return Survey("questions", name, (file,), dev=_dev_of(name), version=version)


def _first_bytes(path: Path, count: int) -> bytes:
    with opened_stream(path) as file:
        return file.stream.read(count)
