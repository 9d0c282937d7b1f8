"""Rows of examples with their places, from table files and data sets of ``datasets``."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import FORMATS, NO_TEXT, PACKED, is_folder, no_text, suffix
from bertc.ir.data import Hf
from bertc.tasks.layouts.find import SAMPLE_BYTES, DataPart, ExampleSource, is_tagged_file
from bertc.text.sources.cells import label, text
from bertc.text.sources.streams import OpenFile, opened_stream
from bertc.text.sources.tables import (
    ColumnSelection,
    TableRow,
    column_indices,
    column_names,
    records,
)

_COLUMN = re.compile(r"\{([^{}]+)\}")
"""A column in a text that is made of several: Question: {question} Answer: {answer}."""


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
        raise DataError(
            f"{source}: unknown format {suffix(source)!r} of a table, and no tabs part columns",
            help,
        )
    with opened_file(source) as file:
        yield from records(file, selection)


ExampleRow = tuple[str, str, tuple[Any, ...]]
"""Key (``id`` or number), place and cells of a row."""


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
    if suffix(path) in FORMATS:
        return True
    if suffix(path) in NO_TEXT or is_folder(path) or is_tagged_file(path):
        return False
    with opened_file(path) as file:
        begun, _, _ = file.stream.read(SAMPLE_BYTES).rpartition(b"\n")
    tabs = {line.count(b"\t") for line in begun.split(b"\n") if line.strip()}
    return len(tabs) == 1 and tabs != {0}


def source_name(source: ExampleSource) -> str:
    """The name of a source in messages."""
    return f"hf({source.name!r}, split={source.split})" if isinstance(source, Hf) else str(source)


def opened_file(path: Path) -> AbstractContextManager[OpenFile]:
    """Open a file, compressed or not, as ``opened_stream`` does."""
    if is_folder(path):
        raise DataError(f"{path} is a folder, not a file", "name a file in it")
    return opened_stream(path)


def names_of_columns(path: Path) -> list[str]:
    """The names of a table's columns, as its first line or row has them."""
    with opened_file(path) as file:
        return column_names(file)


def _hf(source: Hf, selection: ColumnSelection) -> Iterator[TableRow]:
    from bertc.text.sources.hub import guard_errors, load_rows, tables

    rows = load_rows(source)
    where = source_name(source)
    with guard_errors(where):
        names = rows.column_names
        at = column_indices(names, where, selection)
        features = [rows.features[names[i]] if i >= 0 else None for i in at]
        # Names of labels that are stored as numbers, alone or in lists.
        classes = [getattr(getattr(f, "feature", f), "names", None) for f in features]
        for number, row in enumerate(chain.from_iterable(t.to_pylist() for t in tables(rows)), 1):
            cells = [row[names[i]] if i >= 0 else None for i in at]
            cells = [_class(cell, c) if c else cell for cell, c in zip(cells, classes, strict=True)]
            yield TableRow(f"{where}: row {number}", tuple(cells))


def _class(cell: Any, names: Sequence[str]) -> Any:
    if isinstance(cell, list):
        return [_class(item, names) for item in cell]
    return None if cell is None or cell < 0 else names[cell]
