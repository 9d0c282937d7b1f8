"""Files of a task's parts, known by names and by content, and rows of examples in tables."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bertc.base.diagnostics import DataError, MissingInputError, listed
from bertc.base.storage.files import FORMATS, NO_TEXT, PACKED, no_text, suffix
from bertc.base.storage.paths import check_path, is_file, is_folder, user_path
from bertc.base.storage.plain_file import opened
from bertc.ir.data import Hf
from bertc.text.sources import tables
from bertc.text.sources.cells import label, text
from bertc.text.sources.files import has_columns
from bertc.text.sources.source import opened_stream
from bertc.text.sources.tables import ColumnSelection, TableRow

ExampleSource = Path | Hf
BEGINNING_BYTES = 1 << 16
"""Bytes at the beginning of a file that are looked at."""
FEWEST_WORDS = 4
"""Lines with a word that a file needs to be recognised."""
_SPAN_TAG = re.compile(r"O|[BIESLU]-\S+")
"""Tags of spans: IOB, BIO, BIOES and BILOU."""
_COLUMN = re.compile(r"\{([^{}]+)\}")
"""A column in a text that is made of several: Question: {question} Answer: {answer}."""
ExampleRow = tuple[str, str, tuple[Any, ...]]
"""Key (``id`` or number), place and cells of a row."""


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
    packed_names = (name + packing for name in names for packing in ("", *PACKED))
    return next((files[name] for name in packed_names if name in files), None)


def only(files: dict[str, Path], pattern: str, data: str) -> Path | None:
    """The only file whose name matches, None if there is none."""
    matches = [path for name, path in files.items() if re.search(pattern, name.lower())]
    if len(matches) > 1:
        message = f"{data}: {listed(path.name for path in matches)} could each be the one part"
        help = "write how the names of the right files begin after the folder, as in wikiann/en"
        raise DataError(message, help)
    return matches[0] if matches else None


def packed(pattern: str) -> str:
    """A pattern for a complete file name, compressed or not."""
    return rf"^(?:{pattern})(?:{'|'.join(map(re.escape, PACKED))})?$"


def is_tagged_file(path: Path) -> bool:
    """True by the ending of its name, or if each line it begins with is empty or a tagged word.

    Columns are parted by tabs, in CoNLL-U with comments between; or by spaces, if the last one has
    tags of spans. Compressed files and tables with another ending are not looked at.
    """
    if suffix(path) in (".conll", ".conllu", ".iob", ".iob2", ".bio"):
        return True
    if path.suffix in PACKED or suffix(path) in FORMATS:
        return False
    with opened(path) as file:
        sample = file.read(BEGINNING_BYTES)
    if len(sample) == BEGINNING_BYTES:
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


def table(source: ExampleSource, selection: ColumnSelection) -> Iterator[TableRow]:
    """The rows of a table."""
    if isinstance(source, Hf):
        yield from _hf(source, selection)
        return
    if not is_table(source):
        help = f"bertc reads {', '.join(FORMATS)}, each also with {' or '.join(PACKED)}"
        if suffix(source) in NO_TEXT:
            help = no_text(source)[1]
        elif is_tagged_file(source):
            help = f'words and tags a line are read by task=tag("{source}")'
        message = (
            f"{source}: unknown format {suffix(source)!r} of a table, and no tabs part columns"
        )
        raise DataError(message, help)
    with opened_stream(source) as file:
        yield from tables.records(file, selection)


def rows_of(
    part: DataPart, required: tuple[str, ...], answer_columns: tuple[str, ...]
) -> Iterator[ExampleRow]:
    """Rows, with answers if labelled; a name with columns in braces is a text with theirs."""
    parts = [_COLUMN.findall(name) or [name] for name in required]
    columns = tuple(chain(*parts))
    selection = ColumnSelection(columns, answer_columns)
    if part.labelled:
        selection = ColumnSelection((*columns, *answer_columns))
    numbered = selection.numbered
    if not numbered:
        selection = replace(selection, optional=(*selection.optional, "id"))
    for i, (place, cells) in enumerate(table(part.source, selection)):
        rest = iter(cells)
        texts = [
            _filled(name, [next(rest) for _ in inside], place)
            for name, inside in zip(required, parts, strict=True)
        ]
        answers = [*rest]
        key = "" if numbered else label(answers.pop(), place, "id")
        yield key or str(i), place, (*texts, *answers)


def _filled(name: str, cells: list[Any], place: str) -> Any:
    """The text of a row; the one cell of a column."""
    if not _COLUMN.search(name):
        return cells[0]
    rest = iter(cells)
    return _COLUMN.sub(lambda column: text(next(rest), place, column[1]), name)


def is_table(path: Path) -> bool:
    """True if a file has rows of columns: by its ending, or by equally many tabs in its lines."""
    if has_columns(path):
        return True
    if suffix(path) in NO_TEXT or is_folder(path) or is_tagged_file(path):
        return False
    with opened_stream(path) as file:
        begun, _, _ = file.stream.read(BEGINNING_BYTES).rpartition(b"\n")
    tabs = {line.count(b"\t") for line in begun.split(b"\n") if line.strip()}
    return len(tabs) == 1 and tabs != {0}


def source_name(source: ExampleSource) -> str:
    """The name of a source in messages."""
    return f"hf({source.name!r}, split={source.split})" if isinstance(source, Hf) else str(source)


def names_of_columns(path: Path) -> list[str]:
    """The names of a table's columns, as its first line or row has them."""
    with opened_stream(path) as file:
        return tables.column_names(file)


def _hf(source: Hf, selection: ColumnSelection) -> Iterator[TableRow]:
    from bertc.text.sources.opening import batches, guard_errors, load_rows

    rows = load_rows(source)
    where = source_name(source)
    with guard_errors(where):
        names = rows.column_names
        indices = tables.column_indices(names, where, selection)
        features = [rows.features[names[i]] if i >= 0 else None for i in indices]
        # Names of labels that are stored as numbers, alone or in lists.
        classes = [getattr(getattr(f, "feature", f), "names", None) for f in features]
        for number, row in enumerate(chain.from_iterable(b.to_pylist() for b in batches(rows)), 1):
            cells = [row[names[i]] if i >= 0 else None for i in indices]
            cells = [_class(cell, c) if c else cell for cell, c in zip(cells, classes, strict=True)]
            yield TableRow(f"{where}: row {number}", tuple(cells))


def _class(cell: Any, names: Sequence[str]) -> Any:
    if isinstance(cell, list):
        return [_class(item, names) for item in cell]
    return None if cell is None or cell < 0 else names[cell]
