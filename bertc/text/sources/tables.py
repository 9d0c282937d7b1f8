"""Rows of tables with their places: .tsv, .csv, .jsonl, .parquet, sequences, compressed or not."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple
from unicodedata import normalize

from bertc.base.diagnostics import DataError, MissingColumnError, as_data_error, listed, nearest
from bertc.base.storage.files import PACKED, AnyFile, suffix
from bertc.text.sources.sequences import format_of, has_sequences, letters_in
from bertc.text.sources.source import OpenFile, decode, lines

ColumnNames = tuple[str, ...]
Record = tuple[int, list[str]]
SEPARATORS = {
    ",": ("commas", "a copy or a link that ends in .csv"),
    "\t": ("tabs", "a copy or a link that ends in .tsv"),
    ";": ("semicolons", "write it again with commas, as a .csv file"),
}
"""Signs between cells, with the remedy where the ending of a file says another."""
_NOTHING = object()
SEQUENCE_COLUMNS = ("id", "description", "sequence")
NAME_WORDS = 2
"""Words of a column's name; a first line with longer cells is text."""


class TableRow(NamedTuple):
    """A row: its place, and its cells of the wanted columns; None if absent or null."""

    place: str
    cells: tuple[Any, ...]


@dataclass(frozen=True)
class ColumnSelection:
    """The columns to read from a table.

    ``unnamed`` has the names of all columns for files without a header, one tuple for each number
    of columns. ``spellings`` maps other names to these. Rows with too few fields are skipped if
    ``short``, else refused.
    """

    required: ColumnNames
    optional: ColumnNames = ()
    unnamed: tuple[ColumnNames, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    short: bool = False

    @property
    def numbered(self) -> bool:
        """True if columns are given by number from 0, so the first line is a row, not a header."""
        return all(name.isdecimal() for name in (*self.required, *self.optional) if name)


def records(file: OpenFile, selection: ColumnSelection) -> Iterator[TableRow]:
    """The rows of a .csv, .jsonl or .parquet file, of sequences, else of one with tabs."""
    match format_of(file.path):
        case ".jsonl":
            return _jsonl(file, selection)
        case ".parquet":
            return _parquet(file, selection)
        case _ if has_sequences(file.path):
            return _sequences(file, selection)
        case ending:
            read = _commas if ending == ".csv" else _tabs
            return _fields(read(file), file.path, selection)


def column_names(file: OpenFile) -> list[str]:
    """The cells of a table's first line, or the names of its first row's cells; [] if empty."""
    match format_of(file.path):
        case ".jsonl":
            first = next((line for _, line in lines(file) if line.strip()), "{}")
            return list(json_row(first, str(file.path)))
        case ".parquet":
            with _parquet_table(file) as table:
                return list(table.schema_arrow.names)
        case _ if has_sequences(file.path):
            return list(SEQUENCE_COLUMNS)
        case ending:
            read = _commas if ending == ".csv" else _tabs
            return next(read(file), (0, list[str]()))[1]


def _tabs(file: OpenFile) -> Iterator[Record]:
    """Records of a .tsv file, split at tabs; quotes have no meaning, as in GLUE's files."""
    for number, line in lines(file):
        if line:
            yield number, line.split("\t")


def _commas(file: OpenFile) -> Iterator[Record]:
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((line + "\n" for _, line in lines(file)), strict=True)
    begins = 1
    try:
        for record in reader:
            if record:
                yield begins, record
            begins = reader.line_num + 1
    except csv.Error as error:
        message = f"{file.path}:{begins}: no row of comma-separated values: {error}"
        help = 'put a field with a comma, a quote or a line break in "...", and double its quotes'
        raise DataError(message, help) from None


def _fields(records: Iterator[Record], path: AnyFile, which: ColumnSelection) -> Iterator[TableRow]:
    first = next(records, None)
    if first is None:
        raise DataError(f"{path}:1: the file is empty", "a table with a row for each example")
    (begins, header), where = first, str(path)
    try:
        names = _names(header, f"{where}:{begins}", which)
        indices = column_indices(names, f"{where}:{begins}", which)
    except DataError as error:
        if isinstance(error, MissingColumnError):
            error.help += f'; if line {begins} names none, they are called "0", "1" and so on'
        raise other_separator(header, path, begins, which.numbered) or error from None
    for number, fields in records if names is header else chain([first], records):
        if len(fields) != len(names):
            if which.short and len(fields) < len(names):
                continue
            message = f"{where}:{number}: {len(fields)} columns, line {begins} has {len(names)}"
            raise DataError(message, "a field for every column; quotes are for .csv files alone")
        yield TableRow(f"{where}:{number}", tuple([fields[i] if i >= 0 else None for i in indices]))


def _names(fields: list[str], place: str, selection: ColumnSelection) -> Sequence[str]:
    if selection.numbered:
        return [str(number) for number in range(len(fields))]
    named = (selection.required, selection.optional, selection.spellings, *selection.unnamed)
    if not selection.unnamed or set().union(*named) & set(fields):
        return fields
    for names in selection.unnamed:
        if len(names) == len(fields):
            return names
    names = selection.unnamed[0]
    help = f"the columns are {listed(names)}; or a first line names {listed(selection.required)}"
    raise DataError(f"{place}: {len(fields)} columns without names, {len(names)} expected", help)


def other_separator(
    header: Sequence[str], path: AnyFile, at: int = 1, numbered: bool = False
) -> DataError | None:
    """The error of a file whose cells are separated otherwise than its ending says."""
    expected = "commas" if suffix(path) == ".csv" else "tabs"
    for sign, (used, remedy) in SEPARATORS.items():
        cells = header[0].split(sign)
        named = numbered or all(len(cell.split()) <= NAME_WORDS for cell in cells)
        if len(header) == 1 < len(cells) and named:
            return DataError(f"{path}:{at}: {used} separate its cells, not {expected}", remedy)
    return None


def column_indices(names: Sequence[str], place: str, selection: ColumnSelection) -> list[int]:
    """The indices of the wanted columns, -1 for an optional one that is absent."""
    spelled = [selection.spellings.get(name, name) for name in names]
    columns = (*selection.required, *selection.optional)
    indices = [column_index(name, spelled) if name else -1 for name in columns]
    missing = [name for name, i in zip(selection.required, indices, strict=False) if name and i < 0]
    if missing:
        near = ", ".join(filter(None, (nearest(name, spelled) for name in missing)))
        raise MissingColumnError(
            f"{place}: no column {listed(map(repr, missing))}; there are {listed(names) or 'none'}",
            f"the nearest: {near}" if near else "name one of those",
        )
    return indices


def column_index(name: str, names: Sequence[str]) -> int:
    """The index of a column, -1 if absent; its name may be in another form of Unicode."""
    if name in names:
        return names.index(name)
    alike = [i for i, n in enumerate(names) if normalize("NFC", n) == normalize("NFC", name)]
    return alike[0] if len(alike) == 1 else -1


def _jsonl(file: OpenFile, selection: ColumnSelection) -> Iterator[TableRow]:
    for number, line in lines(file):
        if not line.strip():
            continue
        place = f"{file.path}:{number}"
        row = _nest_cells(json_row(line, place), selection)
        names = list(row)
        indices = column_indices(names, place, selection)
        yield TableRow(place, tuple([row[names[i]] if i >= 0 else None for i in indices]))


def _nest_cells(row: dict[str, Any], selection: ColumnSelection) -> dict[str, Any]:
    """A row with its cells, and those inside of them that names with dots select."""
    for name in (*selection.required, *selection.optional):
        if "." in name and name not in row:
            cell: Any = row
            for part in name.split("."):
                cell = cell.get(part, _NOTHING) if isinstance(cell, dict) else _NOTHING
            if cell is not _NOTHING:
                row = {**row, name: cell}
    return row


def json_row(line: str, place: str) -> dict[str, Any]:
    """The JSON object in a line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg.lower() if isinstance(error, json.JSONDecodeError) else "too deep"
        raise DataError(f"{place}: not JSON: {reason}", "one JSON object a line") from None
    if not isinstance(row, dict):
        raise DataError(f"{place}: not a JSON object", "one JSON object a line")
    return row


def _sequences(file: OpenFile, selection: ColumnSelection) -> Iterator[TableRow]:
    """A row for each sequence: the first word of its title, the others, its letters."""
    indices = column_indices(SEQUENCE_COLUMNS, str(file.path), selection)
    for (line, title), pieces in groupby(letters_in(file), itemgetter(0)):
        words = decode(title.strip(), file.path, line).split(None, 1)
        cells = (*words, "", "")[:2] + ("".join(letters for _, letters, _ in pieces),)
        yield TableRow(f"{file.path}:{line}", tuple(cells[i] if i >= 0 else None for i in indices))


def _parquet(file: OpenFile, selection: ColumnSelection) -> Iterator[TableRow]:
    with _parquet_table(file) as table:
        names = [*table.schema_arrow.names]
        asked = (*selection.required, *selection.optional)
        names += [c for c in asked if "." in c and c not in names and c.split(".")[0] in names]
        indices = column_indices(names, str(file.path), selection)
        columns = [names[i] for i in indices if i >= 0]
        (nth, shares), groups = file.share, table.num_row_groups
        sizes = [table.metadata.row_group(group).num_rows for group in range(groups)]
        chosen = range(-(-groups * nth // shares), -(-groups * (nth + 1) // shares))
        first = number = sum(sizes[: chosen.start])
        total = sum(sizes[group] for group in chosen)
        for batch in table.iter_batches(batch_size=256, columns=columns, row_groups=chosen):
            file.read_fraction = (number + batch.num_rows - first) / max(1, total) / shares
            try:
                rows = batch.to_pylist()
            except UnicodeDecodeError:
                last = number + batch.num_rows
                message = f"{file.path}: rows {number + 1} to {last} are not all UTF-8"
                raise DataError(message, "write them again") from None
            for row in rows:
                number += 1
                row = _nest_cells(row, selection)
                cells = tuple(row.get(names[i]) if i >= 0 else None for i in indices)
                yield TableRow(f"{file.path}: row {number}", cells)


@contextmanager
def _parquet_table(file: OpenFile) -> Iterator[Any]:
    from pyarrow import parquet

    # The format is read from its end.
    stream = io.BytesIO(file.stream.read()) if file.path.suffix in PACKED else file.stream
    message = f"{file.path}: not a whole Parquet file"
    with as_data_error(message, "copy it again, or write it again"):
        yield parquet.ParquetFile(stream)
