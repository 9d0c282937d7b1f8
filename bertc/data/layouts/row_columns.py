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
from bertc.data.layouts.table import is_table, named_rows
from bertc.data.sources.cells import label
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Embed, Read, Regress, Tag

NAMING = (
    "text", "pair", "label", "passage", "choices", "words", "tags", "target", "start", "positive",
    "negative", "score",
)  # fmt: skip
"""Arguments of tasks that name columns."""
Cells = dict[str, Any]


def columns_of(task: AnyTask, path: Path, examples: Sequence[Example]) -> Iterator[Cells]:
    """The columns of each example's row, by name; of files in official layouts its own texts."""
    if not isinstance(task, Classify | Regress | Choose | Tag | Read | Embed) or not is_table(path):
        yield from (_texts(task, example) for example in examples)
        return
    values = [getattr(task, name, "") for name in NAMING]
    columns = [name for value in values for name in ([value] if isinstance(value, str) else value)]
    rows = enumerate(named_rows(path, numbered=all(map(str.isdecimal, filter(None, columns)))))
    for example in examples:  # in their order; some rows hold none
        cells = next(c for i, c in rows if example.key == (label(c.get("id"), "", "id") or str(i)))
        yield {name: _plain(cell) for name, cell in cells.items()}


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
