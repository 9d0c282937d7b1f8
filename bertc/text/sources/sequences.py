"""Sequences of FASTA and FASTQ files in pieces, so that a chromosome takes little memory."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import chain, groupby, takewhile
from operator import itemgetter
from string import ascii_letters, ascii_lowercase
from typing import Literal

from bertc.base.diagnostics import DataError
from bertc.base.storage.files import READS, SEQUENCES, AnyFile, suffix
from bertc.text.sources import source as streams
from bertc.text.sources.source import OpenFile

FRAME = 840
"""A multiple of 1 to 8: pieces of such lengths leave k-mers in their frame."""
_TITLE, _COMMENT = re.compile(rb"^>([^\n]*)\n?", re.M), re.compile(rb"^;[^\n]*", re.M)
_BLANKS, _LETTERS = b" \t\r\n\v\f", f"{ascii_letters}-.*".encode()
_Title = tuple[int, bytes]
"""The line of a record, and its title there."""
Letters = tuple[_Title, str, bool]
"""A piece of a sequence: its title, letters, and whether they are its first."""


def format_of(path: AnyFile) -> str:
    """The ending that names the format; .fa, of Persian text too, is .fasta if it begins with >."""
    if (ending := suffix(path)) != ".fa":
        return ending
    with streams.opened_stream(path) as file:
        return ".fasta" if file.stream.read(1) == b">" else ending


def has_sequences(path: AnyFile) -> bool:
    """True if the rows of a file are sequences."""
    return format_of(path) in (*SEQUENCES, *READS)


def letters_in(file: OpenFile, masked: Literal["upper", "skip"] = "upper") -> Iterator[Letters]:
    """The sequences of a file; a ``*`` at their end, which a stop codon leaves, is left out."""
    most = max(streams.PIECE_BYTES // FRAME, 1) * FRAME
    left_out = ascii_lowercase.encode() if masked == "skip" else b""
    records = _reads(file) if suffix(file.path) in READS else _records(file)
    for title, runs in groupby(records, itemgetter(0)):
        rest, first, empty = "", True, True
        for _, line, run in runs:
            raw = run.translate(None, _BLANKS)
            if wrong := raw.translate(None, _LETTERS)[:1]:
                line += run.count(b"\n", 0, run.index(wrong))
                sign = wrong.decode(errors="backslashreplace")
                help = "a sequence has letters, and the signs - . *; files(...) reads text"
                raise DataError(f"{file.path}:{line}: {sign!r} in a sequence", help)
            empty = empty and not raw
            rest += raw.translate(None, left_out).upper().decode()
            while len(rest) > most:
                yield title, rest[:most], first
                rest, first = rest[most:], False
        if empty:
            message = f"{file.path}:{title[0]}: a sequence without letters"
            raise DataError(message, "remove its record")
        yield title, rest.removesuffix("*"), first


def _records(file: OpenFile) -> Iterator[tuple[_Title, int, bytes]]:
    """Titles in FASTA with lines and bytes below them; lines that begin with ``;`` are comments."""
    title: _Title | None = None
    line, inside, rest = 1, False, b""
    for chunk in chain(streams.chunks(file), [b""]):
        text = (rest + chunk).removeprefix(BOM_UTF8)
        last = text.rfind(b"\n") + 1
        # Letters of a line are taken before its end is read, a title is not.
        waits = chunk and text[last : last + 1] in (b">", b";") and (last or not inside)
        text, rest = (text[:last], text[last:]) if waits else (text, b"")
        if len(rest) > streams.PIECE_BYTES:
            raise DataError(f"{file.path}:{line}: a title is longer than 1 MiB", "shorten it")
        runs = _TITLE.split(_COMMENT.sub(b"", b" " * inside + text))
        inside = text[-1:] not in (b"\n", b"")
        for name, run in zip([None, *runs[1::2]], runs[::2], strict=True):
            title = title if name is None else (line, name)
            line += name is not None
            if title:
                yield title, line, run
            elif run.strip():
                help = f'a line ">name" begins a sequence; files("{file.path}") reads text'
                raise DataError(f"{file.path}:{line}: text before a line that begins with >", help)
            line += run.count(b"\n")


def _reads(file: OpenFile) -> Iterator[tuple[_Title, int, bytes]]:
    """The same of FASTQ: ``@name``, letters, ``+``, qualities; letters may have several lines."""
    lines = streams.lines(file)
    for line, title in lines:
        if title.strip():
            texts = [text for _, text in takewhile(lambda row: row[1][:1] not in ("+", "@"), lines)]
            letters, qualities = sum(map(len, texts)), 0
            while qualities < letters and (row := next(lines, None)):
                qualities += len(row[1])
            if title[:1] != "@" or qualities != letters:
                counts = f"{letters:,} letters, {qualities:,} qualities"
                help = "lines of a read: @name, letters, +, a quality for each letter"
                raise DataError(f"{file.path}:{line}: no read of FASTQ: {counts}", help)
            yield (line, title[1:].encode()), line + 1, "\n".join(texts).encode()
