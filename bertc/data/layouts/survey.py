"""A first look at text or examples: format, size, language, sentences, columns and labels.

Of large files the beginning is read. Everything found is a guess that a spec can say otherwise.
"""

import glob
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from bertc.data.layouts.columns import (
    Column,
    number_of,
    text_of,
)
from bertc.data.layouts.conll import tagging_parts
from bertc.data.layouts.documents import read_document
from bertc.data.layouts.languages import languages_of
from bertc.data.sources.files import begin_as_text, has_columns, matching_files
from bertc.data.sources.streams import opened_stream
from bertc.data.sources.tables import ColumnSelection, TableRow, column_names, records
from bertc.diagnostics import DataError
from bertc.ir.learning.task import Tagging
from bertc.storage.endings import FORMATS, NO_TEXT, PACKED, suffix
from bertc.storage.paths import is_file, is_folder, user_path
from bertc.storage.tagged import SAMPLE_BYTES as TAGGED_BYTES
from bertc.storage.tagged import are_tagged_words

DataKind = Literal["text", "table", "tags", "questions"]

SURVEYED_ROWS = 1000
SURVEYED_BYTES = 1 << 18
SAMPLED_FILES, PLACES, PLACE_BYTES, FEWEST_CELLS = 32, 8, 1 << 13, 50
"""Files, places in one, bytes there and cells of a table whose languages are compared."""
PACKED_BYTES = 3
"""Bytes of text in a byte of a compressed file, about; as prepared text assumes."""
LONGEST_COLUMN_NAME, MOST_NAME_WORDS = 40, 3
"""Characters and words of a column's name; a longer cell in the first line is an example's."""
DEV_PARTS = ("dev", "valid", "validation", "val")
"""Names in place of ``train`` of a file to judge by, the first that is there."""
_SQUAD = re.compile(r"(train|dev)-v(1\.1|2\.0)(\..*)?\.json(\.gz|\.zst)?")
_TRAIN = re.compile(r"(?<![a-z])train(?![a-z])")
_SENTENCE_END = re.compile(r"[.!?…。！？:;][\"'»”)\]]*$")


@dataclass(frozen=True)
class Survey:
    """Text or examples under a name, as a spec would name them.

    ``text_bytes`` is of the text uncompressed, about. ``dev`` is a file to judge by, "" for none.
    ``version`` is that of SQuAD's files.
    """

    kind: DataKind
    name: str
    files: tuple[Path, ...]
    text_bytes: int
    sample: str
    languages: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    dev: str = ""
    version: int = 1

    @property
    def language(self) -> str:
        """The code of its language by its commonest words, "" of none that is known, or several."""
        return self.languages[0] if len(self.languages) == 1 else ""

    @property
    def has_line_sentences(self) -> bool:
        """True if plain text has a sentence a line, and blank lines between documents."""
        lines = [line.strip() for line in self.sample.splitlines()[:-1]]
        full = [line for line in lines if line]
        if self.kind != "text" or len(full) < 10 or len(full) == len(lines):
            return False
        ended = sum(1 for line in full if _SENTENCE_END.search(line))
        return ended > 0.8 * len(full) and len(lines) - len(full) < 0.5 * len(full)

    @property
    def tag_column(self) -> str:
        """The column of tags for the task tagging: names of spans, of CoNLL-U word classes."""
        lines = (line for line in self.sample.splitlines() if line and line[0] != "#")
        return "upos" if next(lines, "").count("\t") == 9 else "ner"


def survey(name: str) -> Survey:
    """Look at a file, a folder or a pattern.

    Raises:
        MissingInputError: nothing is there.
        DataError: it is neither text nor rows of columns, or is damaged.
    """
    path = user_path(name)
    if is_folder(path):
        return _folder(name.rstrip("/") or "/", path)
    if is_file(path) and suffix(path) == ".json":
        return _questions(name, path)
    if is_file(path) and _is_tagged(path):
        return _tags(name, path)
    files = matching_files(name)
    begin_as_text(files)
    if has_columns(files[0]):
        return _table(name, files)
    languages = languages_of(_samples(files))
    return Survey("text", name, tuple(files), _bytes(files), _beginning(files), languages)


def _folder(name: str, path: Path) -> Survey:
    """A folder of an official layout, or the files of the ending that has the most bytes."""
    files = [each for each in sorted(path.rglob("*")) if is_file(each) and _seen(each, path)]
    here = [each for each in files if each.parent == path]
    official = [match for each in here if (match := _SQUAD.fullmatch(each.name))]
    if official:
        last = max(official, key=lambda match: (match[1], match[2]))
        trains = last[1] == "train"
        where = name if trains else f"{name}/{last[0]}"
        return _questions(where, path / last[0], 2 if last[2] == "2.0" else 1)
    train = [each for each in here if _TRAIN.search(each.name.lower())]
    if train and _is_tagged(train[0]):
        return _tags(f"{name}/{train[0].name}", train[0])
    if train and has_columns(train[0]):
        return _table(f"{name}/{train[0].name}", train[:1])
    sizes = Counter[str]()
    for each in files:
        if suffix(each) not in NO_TEXT:
            sizes[_ending(each)] += each.stat().st_size
    if not sizes:
        raise DataError(
            f"{name} has no file with text", help=f"text, or {', '.join(FORMATS)}; packed as .gz"
        )
    ending = sizes.most_common(1)[0][0]
    return survey(f"{glob.escape(name)}/**/*{ending}")


def _is_tagged(path: Path) -> bool:
    if suffix(path) in (*FORMATS, *NO_TEXT):
        return False
    return are_tagged_words(_first_bytes(path)[:TAGGED_BYTES])


def _seen(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _ending(path: Path) -> str:
    return suffix(path) + path.suffix * (path.suffix in PACKED)


def _table(name: str, files: Sequence[Path]) -> Survey:
    """A table with its columns; numbered where its first line is no line of names."""
    with opened_stream(files[0]) as file:
        names = column_names(file)
    if not all(map(_is_name, names)) or len({*names}) < len(names):
        names = [str(number) for number in range(len(names))]
    with opened_stream(files[0]) as file:
        selection = ColumnSelection(required=(), optional=tuple(names))
        cells = list(_first_cells(records(file, selection)))
    columns = tuple(
        Column(column, tuple("" if row[i] is None else str(row[i]) for row in cells))
        for i, column in enumerate(names)
    )
    texts = text.cells if (text := text_of(columns)) else ()
    size = max(FEWEST_CELLS, -(-len(texts) // PLACES))
    parts = ("\n".join(texts[at : at + size]) for at in range(0, len(texts), size))
    known = languages_of(parts)
    dev = _dev_of(name, files)
    return Survey("table", name, tuple(files), _bytes(files), "", known, columns, dev)


def _is_name(cell: str) -> bool:
    """True unless the cell of a first line reads like an example's: numbers, sentences, nothing."""
    words = len(cell.split())
    sentence = words > MOST_NAME_WORDS or bool(_SENTENCE_END.search(cell.strip()))
    return (
        words > 0 and len(cell) <= LONGEST_COLUMN_NAME and not sentence and number_of(cell) is None
    )


def _first_cells(rows: Iterable[TableRow]) -> Iterator[tuple[Any, ...]]:
    """Cells of the first rows, fewer where those are long texts."""
    size = 0
    for row in islice(rows, SURVEYED_ROWS):
        yield row.cells
        size += sum(len(cell) for cell in row.cells if isinstance(cell, str))
        if size > 4 * SURVEYED_BYTES:
            return


def _dev_of(name: str, files: Sequence[Path]) -> str:
    """The name of the file beside a training file that is there to judge by, "" for none."""
    path = Path(name)
    if len(files) > 1 or not _TRAIN.search(path.name.lower()):
        return ""
    name = path.with_suffix("").name if path.suffix in PACKED else path.name
    for part in DEV_PARTS:
        plain = re.sub("train", part, name, flags=re.IGNORECASE)
        for ending in ("", *PACKED):
            beside = path.with_name(plain + ending)
            if is_file(user_path(beside)):
                return str(beside)
    return ""


def _tags(name: str, file: Path) -> Survey:
    """The folder of a file of tags if names tell its parts, else that file alone."""
    folder = str(Path(name).parent)
    try:
        parts = {n: p.source for n, p in tagging_parts(Tagging(data=folder)).items()}
    except DataError:  # several files could each be one part
        parts = {}
    files = [source for source in parts.values() if isinstance(source, Path)]
    if file not in files or "train" not in parts:
        return Survey("tags", name, (file,), _bytes([file]), _beginning([file]))
    train, dev = files[[*parts].index("train")], str(parts.get("dev", ""))
    return Survey("tags", folder, tuple(files), _bytes([train]), _beginning([file]), dev=dev)


def _questions(name: str, file: Path, version: int = 0) -> Survey:
    """A file in SQuAD's layout; version 2 has questions without an answer."""
    document = read_document(file)
    if not isinstance(document, dict) or "data" not in document:
        raise DataError(
            f"{file}: a JSON file without the member data of SQuAD's",
            help=f"bertc reads text, {', '.join(FORMATS)}, CoNLL's columns and SQuAD's JSON",
        )
    version = version or 1 + ('"is_impossible": true' in _beginning([file]))
    dev = _dev_of(name, [file]) if file == user_path(name) else ""
    return Survey("questions", name, (file,), _bytes([file]), "", dev=dev, version=version)


def _bytes(files: Sequence[Path]) -> int:
    packed = (*PACKED, ".parquet")
    return sum(
        each.stat().st_size * (PACKED_BYTES if each.suffix in packed else 1) for each in files
    )


def _samples(files: Sequence[Path]) -> Iterator[str]:
    """Text of some files, from several places of those that are not packed."""
    for path in files[:: -(-len(files) // SAMPLED_FILES)]:
        with opened_stream(path) as file:
            places = 1 if path.suffix in PACKED else PLACES
            for place in range(places):
                file.stream.seek(path.stat().st_size * place // places)
                yield file.stream.read(PLACE_BYTES).decode("utf-8", errors="ignore")


def _beginning(files: Sequence[Path]) -> str:
    return _first_bytes(files[0]).decode("utf-8", errors="replace")


def _first_bytes(path: Path) -> bytes:
    with opened_stream(path) as file:
        return file.stream.read(SURVEYED_BYTES)
