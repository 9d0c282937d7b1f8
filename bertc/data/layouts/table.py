"""Rows of examples with their places, from table files and data sets of ``datasets``."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any

from bertc.data.sources.streams import OpenFile, opened_stream
from bertc.data.sources.tables import (
    ColumnNames,
    ColumnSelection,
    TableRow,
    column_indices,
    records,
)
from bertc.diagnostics import DataError
from bertc.ir.data import Hf
from bertc.storage.endings import FORMATS, PACKED, suffix
from bertc.storage.paths import is_folder
from bertc.storage.tagged import has_tagged_words, tagging_help

ExampleSource = Path | Hf


def table(source: ExampleSource, selection: ColumnSelection) -> Iterator[TableRow]:
    """The rows of a table.

    Raises:
        MissingInputError: it is not there.
        DataError: a column is missing, or the file is damaged; says where.
    """
    if isinstance(source, Hf):
        yield from _hf(source, selection)
        return
    if suffix(source) not in FORMATS:
        raise DataError(
            f"{source}: unknown format {suffix(source)!r} of a table",
            _format_help(source),
        )
    with opened_file(source) as file:
        yield from records(file, selection)


def _format_help(source: Path) -> str:
    """The help for a file that is no table by its ending.

    Raises:
        MissingInputError: it is not there.
    """
    if suffix(source) in (".conll", ".conllu", ".iob", ".iob2", ".bio") or has_tagged_words(source):
        return tagging_help(source)
    read = f"bertc reads {', '.join(FORMATS)}, each also with {' or '.join(PACKED)}"
    return f"{read}: name it {source.with_suffix('.tsv').name} if tabs part its columns"


def source_name(source: ExampleSource) -> str:
    """The name of a source in messages."""
    return f"hf({source.name!r}, split={source.split})" if isinstance(source, Hf) else str(source)


def opened_file(path: Path) -> AbstractContextManager[OpenFile]:
    """Open a file, compressed or not, as ``streams.opened`` does.

    Raises:
        MissingInputError: it is not there.
        DataError: it is a folder.
    """
    if is_folder(path):
        raise DataError(f"{path} is a folder, not a file", "name a file in it")
    return opened_stream(path)


def _hf(source: Hf, selection: ColumnSelection) -> Iterator[TableRow]:
    from bertc.data.sources.hub import guarded, load_rows, tables

    rows = load_rows(source)
    where = source_name(source)
    with guarded(where):
        names = rows.column_names
        at = column_indices(names, where, selection)
        classes = [_classes(rows.features[names[i]]) if i >= 0 else () for i in at]
        for number, row in enumerate(chain.from_iterable(t.to_pylist() for t in tables(rows)), 1):
            cells = [row[names[i]] if i >= 0 else None for i in at]
            cells = [_class(cell, c) if c else cell for cell, c in zip(cells, classes, strict=True)]
            yield TableRow(f"{where}: row {number}", tuple(cells))


def _classes(feature: Any) -> ColumnNames:
    """The names of a column's labels if the data set stores them as numbers; else empty."""
    return tuple(getattr(getattr(feature, "feature", feature), "names", None) or ())


def _class(cell: Any, names: ColumnNames) -> Any:
    if isinstance(cell, list):
        return [_class(item, names) for item in cell]
    return None if cell is None or cell < 0 else names[cell]
