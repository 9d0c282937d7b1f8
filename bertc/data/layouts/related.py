"""Texts to embed, alone or in pairs, from custom files and from STS-B's."""

from collections.abc import Iterator
from pathlib import Path

from bertc.base.diagnostics import DataError
from bertc.base.storage.endings import suffix
from bertc.base.storage.paths import user_path
from bertc.data.layouts.example import RelatedExample, ScoredExample
from bertc.data.layouts.find import DataPart, DataParts
from bertc.data.layouts.glue import read_glue
from bertc.data.layouts.own import own_parts, rows_of
from bertc.data.layouts.table import ExampleSource, opened_file, source_name
from bertc.data.sources.cells import number, text
from bertc.data.sources.streams import lines
from bertc.ir.learning.custom_task import Embed
from bertc.ir.learning.task import Glue

LINES = ".txt"
"""The ending of files with a text a line."""


def related_parts(task: Embed) -> DataParts:
    """The parts that the task names; that of ``sts`` is called ``dev-sts``."""
    sts = {"dev-sts": DataPart(user_path(task.sts), sts=True)} if task.sts else {}
    return own_parts(task) | sts


def read_related(task: Embed, part: DataPart, labelled: bool) -> list[RelatedExample]:
    """Read the examples of a file; if not ``labelled``, pairs with their score if there is one."""
    source = part.source
    if part.sts:
        assert isinstance(source, Path), "sts names a file"
        return [*_of_sts(source, labelled)]
    if isinstance(source, Path) and suffix(source) == LINES:
        return [*_lines(task, source)]
    return [*_in_columns(task, source, labelled)]


def _of_sts(path: Path, labelled: bool) -> Iterator[RelatedExample]:
    for example in read_glue(Glue(task="stsb", data=str(path)), path, labelled):
        assert isinstance(example, ScoredExample), "STS-B has scores"
        yield RelatedExample(example.key, example.texts, example.score)


def _lines(task: Embed, path: Path) -> Iterator[RelatedExample]:
    """The lines of a file, without empty ones."""
    for name in ("negative", "score"):
        if column := getattr(task, name):
            raise DataError(
                f"{path}: a .txt file has one text a line, and {name}={column} is a column",
                f"a table, or leave {name} out; sts=FILE has scores of its own",
            )
    with opened_file(path) as file:
        for place, line in lines(file):
            if line.strip():
                yield RelatedExample(str(place - 1), (line,), None)


def _in_columns(task: Embed, source: ExampleSource, labelled: bool) -> Iterator[RelatedExample]:
    names = [task.text, task.positive, task.negative if labelled else ""]
    if not labelled and not task.positive:
        raise DataError(
            f"{source_name(source)}: a similarity is of two texts, and one column is named",
            f'--task "embed(text={task.text}, positive=COLUMN)", or `bertc embed` for vectors',
        )
    columns = [name for name in names if name]
    for key, place, (*cells, cell) in rows_of(source, tuple(columns), (task.score,), labelled):
        texts = tuple(text(c, place, name) for c, name in zip(cells, columns, strict=True))
        unknown = not task.score or (not labelled and cell in (None, ""))
        yield RelatedExample(key, texts, None if unknown else number(cell, place, task.score))
