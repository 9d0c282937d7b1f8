"""Parallel text: two files line by line, or two columns of a file; as pairs or one side."""

import contextlib
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from bertc.base.diagnostics import DataError
from bertc.data.sources.files import begin_as_text, file_identity, has_columns, matching_files, rows
from bertc.data.sources.source import Piece, TextSource
from bertc.data.sources.streams import OpenFile, lines, opened_stream
from bertc.ir.data import Parallel

Both = tuple[str, str]


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
    begin_as_text(paths)
    name = f"{'-'.join(languages)} of {corpus.path or ' and '.join(wheres)}"
    if side is not None:
        name = f"{languages[side]} of {corpus.path or wheres[side]}"
    size_bytes = sum(path.stat().st_size for path in paths)
    return TextSource(
        name=name,
        identity=("pairs", corpus.path and list(wheres), side, *(file_identity(p) for p in paths)),
        sentences="lines",
        total=size_bytes,
        unit="bytes",
        text_bytes=size_bytes,
        read=partial(_read, paths, wheres if corpus.path else None, side),
        paired=side is None,
    )


def _only(pattern: str) -> Path:
    paths = matching_files(pattern)
    if len(paths) > 1:  # nothing says which lines belong together
        raise DataError(f"{pattern}: {len(paths)} files", "name one file for each language")
    return paths[0]


def _read(paths: list[Path], columns: Both | None, side: int | None) -> Iterator[Piece]:
    """Pairs without an empty side; one side is held out together with its pair."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(opened_stream(path)) for path in paths]
        both = rows(files[0], columns) if columns else _aligned(files)
        for pair in both:
            first, second = (" ".join(text.split()) for text in pair)
            if first and second:
                text = f"{first}\n{second}"
                chosen = text if side is None else (first, second)[side]
                yield Piece(chosen, True, sum(file.amount() for file in files), text)


def _aligned(files: list[OpenFile]) -> Iterator[Both]:
    ends = [0, 0]
    for number, pair in enumerate(zip_longest(*map(lines, files)), 1):
        ends = [number if line else end for line, end in zip(pair, ends, strict=True)]
        if all(pair):
            yield pair[0][1], pair[1][1]
    if ends[0] != ends[1]:
        first, second = (file.path for file in files)
        raise DataError(
            f"{first} has {ends[0]:,} lines, {second} has {ends[1]:,}",
            "line n of one must be the translation of line n of the other",
        )
