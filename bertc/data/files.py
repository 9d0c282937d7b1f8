"""Files as documents: text, JSON lines, tables and Parquet, each also packed."""

import csv
import difflib
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bertc.data.source import Piece, Source, whole
from bertc.data.streams import LONGEST_LINE_BYTES, PACKED, Opened, chunks, decode, lines, opened
from bertc.diagnostics import DataError, MissingInputError
from bertc.ir.data import Files, Sentences
from bertc.passes.inputs import files_named, instead_of

if TYPE_CHECKING:
    import _csv as tables

COLUMNED = (".jsonl", ".csv", ".tsv", ".parquet")
"""Endings of files whose rows have columns; what ends otherwise is text."""
NO_TEXT = (".json", ".html", ".xml", ".pdf", ".docx", ".zip", ".tar", ".tgz", ".xz", ".bz2", ".7z")
"""Endings of files that are no plain text, whatever bytes they hold."""
SAMPLED_BYTES = 1 << 16
"""Bytes of each end of a file that its identity takes in, beside its name, size and time."""

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")

Columns = tuple[str, ...]
Reader = Callable[[Opened, Columns], Iterator[Columns]]


def open_files(corpus: Files) -> Source:
    """Find the files that match the glob, in order of name.

    Raises:
        MissingInputError: none does.
        DataError: one has an ending of what is neither text nor rows of columns.
    """
    paths = found(corpus.path)
    sizes = [path.stat().st_size for path in paths]
    packed = any(path.suffix in (*PACKED, ".parquet") for path in paths)
    return Source(
        name=corpus.path,
        identity=("files", corpus.column, corpus.sentences, *(identity(p) for p in paths)),
        sentences=corpus.sentences,
        total=sum(sizes),
        unit="bytes",
        text_bytes=sum(sizes) * (3 if packed else 1),
        read=partial(_read, paths, corpus.column, corpus.sentences),
    )


def found(name: str) -> list[Path]:
    """The files that match a glob, in order of name.

    Raises:
        MissingInputError: none does.
        DataError: one has an ending of what is neither text nor rows of columns.
    """
    paths = sorted(files_named(name), key=str)
    if not paths:
        raise MissingInputError(*instead_of(name))
    for path in paths:
        if suffix(path) in NO_TEXT:
            raise DataError(
                f"{path}: a {suffix(path)} file is neither plain text nor rows of columns",
                f"bertc reads text, and columns of {', '.join(COLUMNED)} files, "
                f"each also with {' or '.join(PACKED)}",
            )
    return paths


def columned(path: Path) -> bool:
    """Whether its rows have columns; else it is text."""
    return suffix(path) in COLUMNED


def suffix(path: Path) -> str:
    """The ending that says what a file holds, whether it is packed or not."""
    return (path.with_suffix("") if path.suffix in PACKED else path).suffix


def identity(path: Path) -> tuple[object, ...]:
    """Plain values that change when a file does.

    Raises:
        MissingInputError: it cannot be read.
    """
    stat = path.stat()
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            digest.update(stream.read(SAMPLED_BYTES))
            if stat.st_size > 2 * SAMPLED_BYTES:
                stream.seek(-SAMPLED_BYTES, 2)
            digest.update(stream.read(SAMPLED_BYTES))
    except OSError as error:
        raise MissingInputError(f"cannot read {path}: {error.strerror}") from None
    return path.as_posix(), stat.st_size, stat.st_mtime_ns, digest.hexdigest()


def _read(paths: list[Path], column: str, sentences: Sentences) -> Iterator[Piece]:
    for path in paths:
        with opened(path) as file:
            if not columned(path):
                yield from _lines(file) if sentences == "lines" else _text(file)
                continue
            for (text,) in rows(file, (column,)):
                yield from whole(text, file.amount())


def rows(file: Opened, columns: Columns) -> Iterator[Columns]:
    """Some columns of each row of a .jsonl, .csv, .tsv or .parquet file.

    Raises:
        DataError: a row lacks one, or the file is damaged; says where.
    """
    match suffix(file.path):
        case ".jsonl":
            return _jsonl(file, columns)
        case ".csv":
            return _csv(file, columns)
        case ".tsv":
            return _tsv(file, columns)
        case _:
            return _parquet(file, columns)


def _text(file: Opened) -> Iterator[Piece]:
    """A text file is one document; a piece ends at a blank line, else a line, else a space."""
    first, line, rest = True, 1, b""
    for chunk in chunks(file):
        rest += chunk
        blank = max((m.end() for m in _BLANK_LINE.finditer(rest)), default=0)
        cut = blank or rest.rfind(b"\n") + 1 or rest.rfind(b" ") + 1
        if not cut and len(rest) > LONGEST_LINE_BYTES:
            raise DataError(f"{file.path}:{line}: {len(rest):,} bytes without a space")
        if cut:
            yield Piece(decode(rest[:cut], file.path, line), first, file.amount())
            first, line, rest = False, line + rest.count(b"\n", 0, cut), rest[cut:]
    if rest or first:
        yield Piece(decode(rest, file.path, line), first, file.amount())


def _lines(file: Opened) -> Iterator[Piece]:
    """BERT's input format: a sentence a line, blank lines between documents."""
    block: list[str] = []
    characters, first = 0, True
    for _, line in lines(file):
        ended = not line.strip()
        if not ended:
            block.append(line)
            characters += len(line)
        if block and (ended or characters > 1 << 20):
            yield Piece("\n".join(block), first, file.amount())
            block, characters, first = [], 0, False
        first = first or ended
    if block:
        yield Piece("\n".join(block), first, file.amount())


def _jsonl(file: Opened, columns: Columns) -> Iterator[Columns]:
    for number, line in lines(file):
        if not line.strip():
            continue
        place = f"{file.path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg.lower() if isinstance(error, json.JSONDecodeError) else "too deep"
            raise DataError(f"{place}: not JSON: {reason}", "one JSON object a line") from None
        if not isinstance(row, dict):
            raise DataError(f"{place}: not a JSON object", 'write {"text": "..."} on each line')
        yield tuple(_string(row, column, place) for column in columns)


def _string(row: dict[str, object], column: str, place: str) -> str:
    text = row.get(_known(column, row, place))
    if not isinstance(text, str):
        raise DataError(f"{place}: {column!r} is not a string")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{place}: {column!r} has half of a surrogate pair") from None
    return text


def _known(column: str, columns: Iterable[object], place: str) -> str:
    """The column, if it is there.

    Raises:
        DataError: it is not; names those that are.
    """
    names = [str(name) for name in columns]
    if column in names:
        return column
    near = difflib.get_close_matches(column, names, 1, 0.6) or names[:1]
    raise DataError(
        f"{place}: no column {column!r}; there are {', '.join(names[:20]) or 'none'}",
        f"column={near[0]}" if near else "",
    )


def _csv(file: Opened, columns: Columns) -> Iterator[Columns]:
    csv.field_size_limit(LONGEST_LINE_BYTES)
    text = (line + "\n" for _, line in lines(file))
    return _table(csv.reader(text, strict=True), file.path, columns)


def _tsv(file: Opened, columns: Columns) -> Iterator[Columns]:
    """Tabs part the fields and quotes mean nothing, as in GLUE's files."""
    csv.field_size_limit(LONGEST_LINE_BYTES)
    text = (line for _, line in lines(file))
    return _table(csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE), file.path, columns)


def _table(reader: "tables.Reader", path: Path, columns: Columns) -> Iterator[Columns]:
    try:
        header: list[str] = next(reader, [])
        at = [header.index(_known(column, header, f"{path}:1")) for column in columns]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{path}:{reader.line_num}: {len(row)} fields, the first line has {len(header)}"
                )
            yield tuple(row[place] for place in at)
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: bad table: {error}") from None


def _parquet(file: Opened, columns: Columns) -> Iterator[Columns]:
    import pyarrow
    from pyarrow import parquet

    with tempfile.TemporaryFile() as plain:
        stream = file.stream
        if file.path.suffix in PACKED:  # the format is read from its end
            shutil.copyfileobj(file.stream, plain)
            stream = plain
        try:
            table = parquet.ParquetFile(stream)
            for column in columns:
                _known(column, table.schema_arrow.names, str(file.path))
            done = 0
            for batch in table.iter_batches(batch_size=256, columns=list(columns)):
                done += batch.num_rows
                file.done = done / table.metadata.num_rows
                for row in batch.to_pylist():
                    yield tuple(_text_of(row[column], column, file.path) for column in columns)
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{file.path}: not a whole Parquet file: {reason}") from None


def _text_of(value: object, column: str, path: Path) -> str:
    """What stands in a cell; nothing is empty text."""
    if value is not None and not isinstance(value, str):
        raise DataError(f"{path}: column {column!r} does not hold text")
    return value or ""
