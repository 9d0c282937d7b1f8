"""The columns of the rows that examples were read from, for output next to answers."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, assert_never

from bertc.data.layouts.example import (
    ChoiceExample,
    Example,
    LabelledExample,
    QuestionExample,
    ScoredExample,
    TaggedExample,
)
from bertc.data.layouts.own import Own
from bertc.data.layouts.table import is_table, opened_file, table
from bertc.data.sources.tables import ColumnSelection, column_names
from bertc.ir.learning.custom_task import AnyTask

NAMING = (
    "text", "pair", "label", "passage", "choices", "words", "tags", "target", "start", "positive",
    "negative", "score",
)  # fmt: skip
"""Arguments of tasks that name columns."""
Cells = dict[str, Any]


def columns_of(task: AnyTask, path: Path, examples: Sequence[Example]) -> Iterator[Cells]:
    """The columns of each example's row, by name; of files in official layouts its own texts."""
    if not isinstance(task, Own) or not is_table(path):
        yield from (_texts(task, example) for example in examples)
        return
    values = [getattr(task, name, "") for name in NAMING]
    columns = [name for value in values for name in ([value] if isinstance(value, str) else value)]
    with opened_file(path) as file:
        names = column_names(file)
    if all(map(str.isdecimal, filter(None, columns))):
        names = [str(number) for number in range(len(names))]
    names = list(dict.fromkeys(names))
    for _, cells in table(path, ColumnSelection((), tuple(names))):  # a row for each example
        row = dict(zip(names, cells, strict=True))
        yield {name: _plain(cell) for name, cell in row.items()}


def _plain(cell: Any) -> Any:
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    return cell if isinstance(cell, str | int | list | dict | None) else str(cell)


def _texts(task: AnyTask, example: Example) -> Cells:
    match example:
        case LabelledExample() | ScoredExample():
            return dict(zip(task.reads, example.texts, strict=False))
        case ChoiceExample():
            return {"question": example.question, "choices": example.choices}
        case TaggedExample():
            return {"words": example.words}
        case QuestionExample():
            return {"question": example.question}
        case unreachable:
            assert_never(unreachable)
