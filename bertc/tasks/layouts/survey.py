"""A first look at text or examples: format, size, and the beginning of a table's columns."""

import glob
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import Literal

from bertc.base.diagnostics import DataError
from bertc.base.storage.files import FORMATS, NO_TEXT, PACKED, AnyFile, no_text, suffix
from bertc.base.storage.paths import is_file, is_folder, user_path
from bertc.tasks.layouts.official import read_document
from bertc.tasks.layouts.table import is_tagged_file
from bertc.text.sources.files import begin_as_text, has_columns, matching_files, unpacked_bytes
from bertc.text.sources.source import opened_stream
from bertc.text.sources.tables import ColumnSelection, column_names, other_separator, records

SURVEYED_ROWS, CELL_CHARACTERS = 1000, 1 << 12
LONGEST_COLUMN_NAME, MOST_NAME_WORDS = 40, 3
"""Characters and words of a column's name; a longer cell in the first line is an example's."""
DEV_PARTS = ("dev", "valid", "validation", "val", "testa")
"""Names in place of ``train`` of a file to judge by, the first that is there."""
_TRAIN = re.compile(r"(?<![a-z])train(?![a-z])", re.IGNORECASE)
_ABOUT = re.compile(r"(readme|licen[cs]e|copying|notice|changelog)(?![a-z])", re.IGNORECASE)
"""Files about a folder's text."""
_NUMBER = re.compile(r"\s*[-+]?[\d.]+(?:[eE][-+]?\d+)?\s*")
_SENTENCE_END = re.compile(r"[.!?…。！？:;][\"'»”)\]]*$")


@dataclass(frozen=True)
class Survey:
    """Text or examples under a name, as a spec would name them.

    ``columns`` are those of a table by name, each with its cells in the first rows. ``dev`` is the
    file next to a training file that is named as one to judge by, "" for none. ``version`` is that
    of SQuAD's files. ``left_out`` are endings of a folder's other texts, the files of each counted.
    """

    kind: Literal["text", "table", "tags", "questions"]
    name: str
    files: tuple[AnyFile, ...]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dev: str = ""
    version: int = 1
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def text_bytes(self) -> int:
        """Bytes of the text, uncompressed, about."""
        return unpacked_bytes(self.files)


def survey(name: str) -> Survey:
    """Look at a file, a folder or a pattern of text or of examples."""
    path = user_path(name)
    if is_folder(path):
        chosen, left_out = _in_folder(name.rstrip("/") or "/", path)
        return replace(survey(chosen), left_out=left_out)
    if is_file(path) and suffix(path) == ".json":  # in SQuAD's layout
        document = read_document(path)
        if not isinstance(document, dict) or "data" not in document:
            raise DataError(f"{path}: JSON without the member data of SQuAD's", no_text(path)[1])
        version = 1 + ('"is_impossible": true' in json.dumps(document))
        return Survey("questions", name, (path,), dev=_dev_of(name), version=version)
    if is_file(path) and is_tagged_file(path):
        return Survey("tags", name, (path,), dev=_dev_of(name))
    one_table = is_file(path) and has_columns(path)
    files: tuple[AnyFile, ...] = (path,) if one_table else tuple(matching_files(name))
    begin_as_text(files)
    if has_columns(files[0]):
        columns = _columns(files[0])
        return Survey("table", name, files, columns, _dev_of(name, columns))
    return Survey("text", name, files)


def _in_folder(name: str, folder: Path) -> tuple[str, dict[str, int]]:
    """The training file of a folder, else the ending that has the most bytes; what that leaves."""
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if is_file(file) and not any(part[0] == "." for part in file.relative_to(folder).parts)
    ]
    known = (".json", *FORMATS)
    for file in sorted(files, key=lambda file: file.name.split(".")[0].lower() != "train"):
        is_train = file.parent == folder and _TRAIN.search(file.name)
        if is_train and (suffix(file) in known or is_tagged_file(file)):
            return f"{name}/{file.name}", {}
    texts = [file for file in files if suffix(file) not in NO_TEXT]
    texts = [file for file in texts if not _ABOUT.match(file.name)] or texts
    sizes = Counter[str]()
    for file in texts:
        sizes[suffix(file)] += file.stat().st_size
    if not sizes:
        message = f"{name} has no file with text"
        raise DataError(message, help=f"text, or {', '.join(FORMATS)}; packed as .gz")
    ending = sizes.most_common(1)[0][0]
    packed = any(file.suffix in PACKED for file in texts if suffix(file) == ending)
    counts = Counter(suffix(file) for file in texts if suffix(file) != ending)
    return f"{glob.escape(name)}/**/*{ending}{'*' * packed}", dict(counts)


def _columns(path: AnyFile) -> dict[str, tuple[str, ...]]:
    """The columns of a table; numbered where its first line is no line of names."""
    with opened_stream(path) as file:
        names = column_names(file) or [""]
    if error := other_separator(names, path):
        raise error
    named = all(map(_is_name, names)) and len({*names}) == len(names)
    if named and not any(map(_ends_sentence, names)):
        return _cells(path, names)
    numbered = _cells(path, [str(number) for number in range(len(names))])
    return _cells(path, names) if named and not _is_row(names, numbered.values()) else numbered


def _cells(path: AnyFile, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The first cells of columns; of numbered ones the first line is a row."""
    with opened_stream(path) as file:
        rows = records(file, ColumnSelection(required=(), optional=tuple(names)))
        cells = [row.cells for row in islice(rows, SURVEYED_ROWS)]
    return {
        name: tuple("" if row[i] is None else str(row[i])[:CELL_CHARACTERS] for row in cells)
        for i, name in enumerate(names)
    }


def _is_name(cell: str) -> bool:
    """True unless the cell of a first line reads like an example's: a number, a text, nothing."""
    plain = not _NUMBER.fullmatch(cell) and len(cell) <= LONGEST_COLUMN_NAME
    return plain and 0 < len(cell.split()) <= MOST_NAME_WORDS


def _ends_sentence(cell: str) -> bool:
    return bool(_SENTENCE_END.search(cell.strip()))


def _is_row(first: Sequence[str], columns: Iterable[tuple[str, ...]]) -> bool:
    """True if a first line is a row: ``Great film!`` above sentences, not ``No.`` above numbers.

    A cell that no other row has, above cells that repeat, is the name of labels.
    """
    below = [(cell, rows[1:]) for cell, rows in zip(first, columns, strict=True)]
    if any(cell not in rows and len({*rows}) <= len(rows) / 2 for cell, rows in below):
        return False
    return any(
        _ends_sentence(cell) and sum(map(_ends_sentence, rows)) > len(rows) / 2
        for cell, rows in below
    )


def _dev_of(name: str, columns: Collection[str] = ()) -> str:
    """The file next to a training file that judges, perhaps packed or in another format; or ""."""
    path = Path(name)
    bare = path.with_suffix("") if path.suffix in PACKED else path
    for part in DEV_PARTS if _TRAIN.search(bare.name) else ():
        dev = bare.with_name(_TRAIN.sub(part, bare.name))
        for ending, packing in product((dev.suffix, *(FORMATS if columns else ())), ("", *PACKED)):
            judge = dev.with_suffix(ending + packing)
            file = user_path(str(judge))
            if is_file(file) and (ending == dev.suffix or {*_columns(file)} == {*columns}):
                return str(judge)
    return ""
