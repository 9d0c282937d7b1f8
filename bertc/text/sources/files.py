"""Files as documents: text, rows of tables, sequences, compressed or not."""

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from bertc.base.diagnostics import DataError, MissingColumnError, MissingInputError
from bertc.base.storage import files
from bertc.base.storage.encodings import controls_in
from bertc.base.storage.plain_file import no_match
from bertc.ir.data import Fasta, Files, Parallel
from bertc.text.sources import source as streams
from bertc.text.sources.cells import items, text
from bertc.text.sources.sequences import format_of, has_sequences, letters_in
from bertc.text.sources.source import OpenFile, Piece, TextSource, all_of, opened_stream
from bertc.text.sources.tables import ColumnNames, ColumnSelection, records

SAMPLED_BYTES = 1 << 16
"""Bytes at each end of a file in its identity, with name, size and time of change."""
DECODED_BYTES = 16 << 20
"""Bytes of all files together that are decoded at first, of each at least ``SAMPLED_BYTES``."""
PART_BYTES = 128 << 20
"""Text of a part of a corpus; what is larger is cut where the format allows."""
PACKED_BYTES = 3
"""Bytes of text in a byte of a compressed file, about."""
_LINE_END, _RECORD_END = re.compile(rb"\n"), re.compile(rb"\n(?=>)")


class Span(NamedTuple):
    """The ``nth`` of ``parts`` equal parts of a file, up to the next document."""

    path: files.AnyFile
    nth: int = 0
    parts: int = 1


def open_files(corpus: Files | Fasta) -> TextSource:
    """Open the files that match the glob, in order of name."""
    paths = matching_files(corpus.path)
    first, sequences = partial(_pieces, corpus=corpus), isinstance(corpus, Fasta)
    remarks = begin_as_text(paths, first, sequences)
    identities = {path: file_identity(path) for path in paths}
    sizes = {path: unpacked_bytes([path]) for path in paths}

    def opened(name: str, spans: list[Span]) -> TextSource:
        cuts = [(span.nth, span.parts) for span in spans if span.parts > 1]
        read = [identities[span.path] for span in spans]
        reads = [partial(_read_span, span, corpus) for span in spans]
        how = corpus.model_dump(include={"column", "sentences", "masked", "ids"}).values()
        return TextSource(
            name=name, identity=(corpus.kind, *how, *read, *cuts),
            sentences=corpus.sentences, unit="bytes", ids=corpus.ids,
            total=sum(files.size_of(span.path) // span.parts for span in spans),
            text_bytes=sum(sizes[span.path] // span.parts for span in spans),
            read=partial(all_of, reads),
        )  # fmt: skip

    parts = _parts(sizes, corpus)
    source = replace(opened(corpus.path, [Span(path) for path in paths]), remarks=remarks)
    if len(parts) == 1:
        return source
    names = (f"{corpus.path} ({nth} of {len(parts)})" for nth in range(1, len(parts) + 1))
    return replace(source, parts=tuple(map(opened, names, parts)))


def _parts(sizes: dict[files.AnyFile, int], corpus: Files | Fasta) -> list[list[Span]]:
    """Spans of files in parts of about ``PART_BYTES``, one at least."""
    parts, room = [list[Span]()], PART_BYTES
    for path, size in sizes.items():
        sequences = isinstance(corpus, Fasta) and path.suffix not in files.READS
        by_lines = corpus.sentences == "lines" and not has_columns(path)
        in_text = sequences or by_lines or path.suffix == ".jsonl"
        cuttable = path.suffix == ".parquet" or (in_text and path.suffix not in files.PACKED)
        count = max(1, round(size / PART_BYTES)) if cuttable else 1
        for nth in range(count):
            if parts[-1] and size // count > room:
                parts.append([])
                room = PART_BYTES
            parts[-1].append(Span(path, nth, count))
            room -= size // count
    return parts


def unpacked_bytes(paths: Iterable[files.AnyFile]) -> int:
    """Bytes of the text of files, uncompressed, about."""
    packed = (*files.PACKED, ".parquet")
    return sum(files.size_of(path) * PACKED_BYTES ** (path.suffix in packed) for path in paths)


def matching_files(name: str) -> list[files.AnyFile]:
    """The files that match a glob, in order of name."""
    paths = sorted(files.files_anywhere(name), key=str)
    if not paths:
        raise MissingInputError(*no_match(name))
    for path in paths:
        if files.suffix(path) in files.NO_TEXT:
            raise DataError(*files.no_text(path))
    return paths


def begin_as_text(
    paths: Sequence[files.AnyFile],
    read: Callable[[OpenFile], Iterator[object]] | None = None,
    sequences: bool = False,
) -> tuple[DataError, ...]:
    """Decode the beginning of each file here, small ones whole; one has to have text.

    Of tables and ``sequences`` the first row is ``read`` too. Control characters that another
    encoding left are no error: these are returned.
    """
    if paths and not any(map(files.size_of, paths)):
        raise DataError(f"{paths[0]} is empty", "name a file that has text")
    share = max(SAMPLED_BYTES, DECODED_BYTES // max(1, len(paths)))

    def begin(path: Path) -> Iterator[DataError]:
        if files.suffix(path) != ".parquet":
            with opened_stream(path) as file:
                beginning = file.stream.read(share)
                whole = len(beginning) < share
                yield from controls_in(path, streams.decode(beginning, path, 1, complete=whole))
        if read and (sequences or has_columns(path)) and files.size_of(path):
            with opened_stream(path) as file:
                next(read(file), None)

    here = (path for path in paths if not isinstance(path, files.FileAt))
    return tuple(all_of(partial(begin, path) for path in here))


def has_columns(path: files.AnyFile) -> bool:
    """True if the file has rows of columns; else it is plain text."""
    return format_of(path) in files.FORMATS


def file_identity(path: files.AnyFile) -> tuple[object, ...]:
    """Values that change when the file does."""
    if isinstance(path, files.FileAt):
        return path.address, path.size, 0, path.version
    stat, digest = path.stat(), hashlib.sha256()
    try:
        with path.open("rb") as stream:
            digest.update(stream.read(SAMPLED_BYTES))
            if stat.st_size > 2 * SAMPLED_BYTES:
                stream.seek(-SAMPLED_BYTES, 2)
            digest.update(stream.read(SAMPLED_BYTES))
    except OSError as error:
        raise MissingInputError(f"cannot read {path}: {error.strerror}") from None
    return path.as_posix(), stat.st_size, stat.st_mtime_ns, digest.hexdigest()


def _read_span(span: Span, corpus: Files | Fasta, below: int = 0) -> Iterator[Piece]:
    with opened_stream(span.path) as file:
        start = _limit(file, span, corpus)
        try:
            yield from _pieces(file, corpus, below)
        except DataError as error:
            if not start:
                raise
            where = f"{error.message} (lines are counted from byte {start:,} on)"
            raise DataError(where, error.help) from None


def _pieces(file: OpenFile, corpus: Files | Fasta, below: int = 0) -> Iterator[Piece]:
    match corpus:
        case Fasta(masked=masked):
            for _, letters, first in letters_in(file, masked):
                yield Piece(letters, first, file.amount())
        case Files(ids=ids) if ids or has_columns(file.path):
            for document in _documents(file, corpus, below):
                yield from streams.pieces_of_text(document, file.amount())
        case _:
            read = streams.blocks_of if corpus.sentences == "lines" else streams.text_of
            yield from read(file)


def _documents(file: OpenFile, corpus: Files, below: int) -> Iterator[str]:
    """The texts of a column, and its lists of items; an absent cell is an empty text."""
    column, ids = corpus.column, corpus.ids
    try:
        for place, (cell,) in records(file, ColumnSelection(required=(column,))):
            if isinstance(cell, list):
                yield items(cell, place, column, ids, below)
            elif ids and cell is not None:
                raise DataError(f"{place}: {column!r} has no list of token ids", "ids=false")
            else:
                yield "" if cell is None else text(cell, place, column)
    except MissingColumnError as error:
        help = f'files("{file.path}", column=...) names the column of the text: {error.help}'
        if has_sequences(file.path):
            help = f'fasta("{file.path}") reads its sequences'
        raise MissingColumnError(error.message, help) from None


def _limit(file: OpenFile, span: Span, corpus: Files | Fasta) -> int:
    """Read the documents that begin in a span alone; return the first byte."""
    if span.parts == 1:
        return 0
    if files.suffix(span.path) == ".parquet":
        file.share = (span.nth, span.parts)
        return 0
    mark = _LINE_END if has_columns(span.path) else streams.DOCUMENT_END
    mark, size = _RECORD_END if isinstance(corpus, Fasta) else mark, files.size_of(span.path)
    ends = [size * nth // span.parts for nth in (span.nth, span.nth + 1)]
    start, end = (_document_from(file, n, mark) if 0 < n < size else n for n in ends)
    file.limit(start, end)
    return start


def _document_from(file: OpenFile, first: int, mark: re.Pattern[bytes]) -> int:
    """The first byte from ``first`` on that begins a document, else the end of the file."""
    file.stream.seek(before := first - 1)
    rest = b""
    while chunk := file.stream.read(SAMPLED_BYTES):
        rest += chunk
        if match := mark.search(rest):
            return before + match.end()
        begins = rest.rfind(b"\n") if b"\n" in rest else len(rest)  # where an end may begin
        before, rest = before + begins, rest[begins:]
    return before + len(rest)


def rows(file: OpenFile, columns: ColumnNames) -> Iterator[ColumnNames]:
    """The cells of some columns, row by row; an absent cell is an empty text."""
    for row in records(file, ColumnSelection(required=columns)):
        cells = zip(row.cells, columns, strict=True)
        yield tuple("" if cell is None else text(cell, row.place, name) for cell, name in cells)


def open_parallel(corpus: Parallel, side: int | None) -> TextSource:
    """Open parallel text: a document of two sentences for each pair, or one ``side`` of it."""
    languages, wheres = zip(*corpus.sides, strict=True)
    paths = [_only(corpus.path)] if corpus.path else [_only(where) for where in wheres]
    for path in paths:
        if has_columns(path) != bool(corpus.path):
            raise DataError(
                f"{path}: " + ("text has no columns" if corpus.path else "a file of columns"),
                'pairs(en="a.en", fr="a.fr") reads lines, '
                'pairs("a.tsv", en="english", fr="french") columns',
            )
    remarks = begin_as_text(paths, partial(rows, columns=wheres) if corpus.path else None)
    name = f"{'-'.join(languages)} of {corpus.path or ' and '.join(wheres)}"
    if side is not None:
        name = f"{languages[side]} of {corpus.path or wheres[side]}"
    size_bytes = sum(map(files.size_of, paths))
    return TextSource(
        name=name,
        identity=("pairs", corpus.path and list(wheres), side, *(file_identity(p) for p in paths)),
        sentences="lines", total=size_bytes, unit="bytes", text_bytes=size_bytes,
        read=partial(_read_pairs, paths, wheres if corpus.path else None, side),
        paired=side is None, remarks=remarks,
    )  # fmt: skip


def _only(pattern: str) -> files.AnyFile:
    paths = matching_files(pattern)
    if len(paths) > 1:  # nothing says which lines belong together
        raise DataError(f"{pattern}: {len(paths)} files", "name one file for each language")
    return paths[0]


def _read_pairs(
    paths: list[files.AnyFile], columns: ColumnNames | None, side: int | None
) -> Iterator[Piece]:
    """Pairs without an empty side; one side is held out together with its pair."""
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(opened_stream(path)) for path in paths]
        for pair in rows(both[0], columns) if columns else _align(both):
            first, second = (" ".join(text.split()) for text in pair)
            if first and second:
                text = f"{first}\n{second}"
                chosen = text if side is None else (first, second)[side]
                yield Piece(chosen, True, sum(file.amount() for file in both), text)


def _align(both: list[OpenFile]) -> Iterator[ColumnNames]:
    ends = [0, 0]
    for number, pair in enumerate(zip_longest(*map(streams.lines, both)), 1):
        ends = [number if line else end for line, end in zip(pair, ends, strict=True)]
        if all(pair):
            yield pair[0][1], pair[1][1]
    if ends[0] != ends[1]:
        message = f"{both[0].path} has {ends[0]:,} lines, {both[1].path} has {ends[1]:,}"
        raise DataError(message, "line n of one must be the translation of line n of the other")
