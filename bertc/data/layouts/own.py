"""Custom files, with the columns that a task names."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError, several
from bertc.base.storage.paths import user_path
from bertc.base.storage.tagged import is_tagged_file
from bertc.data.layouts.conll import bio, in_columns, read_tagging
from bertc.data.layouts.documents import member
from bertc.data.layouts.example import (
    ChoiceExample,
    Example,
    LabelledExample,
    QuestionExample,
    ScoredExample,
    TaggedExample,
)
from bertc.data.layouts.find import DataPart, DataParts
from bertc.data.layouts.squad import checked_answer
from bertc.data.layouts.table import ExampleSource, table
from bertc.data.sources.cells import known_label, label, number, text, texts, words
from bertc.data.sources.tables import ColumnSelection
from bertc.ir.data import Hf
from bertc.ir.learning.answer import names_spans
from bertc.ir.learning.custom_task import Choose, Classify, Embed, Read, Regress, Tag

Own = Classify | Regress | Choose | Tag | Read


def own_parts(task: Own | Embed) -> DataParts:
    """The parts that the task names."""
    named = {"train": task.train, "dev": task.dev, "test": task.test}
    return {
        part: DataPart(rows if isinstance(rows, Hf) else user_path(rows))
        for part, rows in named.items()
        if rows
    }


def read_own(task: Own, source: ExampleSource, labelled: bool) -> list[Example]:
    """Read the examples of a file; with ``labelled`` each must have its answer."""
    match task:
        case Classify():
            return list(_classified(task, source, labelled))
        case Regress():
            return list(_scored(task, source, labelled))
        case Choose():
            return list(_chosen(task, source, labelled))
        case Tag():
            return list(_tagged(task, source, labelled))
        case Read():
            return list(_asked(task, source, labelled))


def _classified(task: Classify, source: ExampleSource, labelled: bool) -> Iterator[LabelledExample]:
    rows = rows_of(source, (task.text, task.pair), (task.label,), labelled)
    for key, place, (first, second, cell) in rows:
        name: str | None = label(cell, place, task.label)
        if not name and not labelled:
            name = None
        elif not name or task.labels:
            name = known_label(name or "", task.labels, place)
        yield LabelledExample(key, _texts(task, first, second, place), name)


def _scored(task: Regress, source: ExampleSource, labelled: bool) -> Iterator[ScoredExample]:
    rows = rows_of(source, (task.text, task.pair), (task.label,), labelled)
    for key, place, (first, second, cell) in rows:
        unknown = not labelled and cell in (None, "")
        score = None if unknown else number(cell, place, task.label)
        yield ScoredExample(key, _texts(task, first, second, place), score)


def _texts(task: Classify | Regress, first: Any, second: Any, place: str) -> tuple[str, ...]:
    texts = (text(first, place, task.text),)
    return (*texts, text(second, place, task.pair)) if task.pair else texts


def _chosen(task: Choose, source: ExampleSource, labelled: bool) -> Iterator[ChoiceExample]:
    """Examples with choices, skipping rows without choices or with an answer past the last.

    ARC's tables, cut to four choices, have rows of both sorts.
    """
    rows = rows_of(source, (task.passage, task.text, *task.choices), (task.label,), labelled)
    for key, place, (passage, question, *cells, cell) in rows:
        choices = _choices(task, cells, place)
        if not choices:
            continue
        name = label(cell, place, task.label)
        lost = len(cells) > 1 and _letter(name) == len(cells)
        if lost and labelled:
            continue
        answer = None if lost or not (name or labelled) else _right(name, choices, place)
        yield ChoiceExample(
            key,
            text(passage, place, task.passage) if task.passage else "",
            text(question, place, task.text),
            choices,
            answer,
        )


def _choices(task: Choose, cells: list[Any], place: str) -> tuple[str, ...]:
    """The choices of a row; the last columns may be empty."""
    if len(task.choices) == 1:
        choices = texts(cells[0], place, task.choices[0])
    else:
        choices = tuple(
            "" if cell is None else text(cell, place, column)
            for cell, column in zip(cells, task.choices, strict=True)
        )
        while choices and not choices[-1].strip():
            choices = choices[:-1]
        if not choices:
            return ()
    most = task.answer.most
    if not 2 <= len(choices) <= most:
        raise DataError(
            f"{place}: {len(choices)} choices, 2 to {most} expected",
            f"most={len(choices)}" if len(choices) > most else "",
        )
    return choices


def _right(name: str, choices: tuple[str, ...], place: str) -> int:
    if not name:
        raise DataError(f"{place}: no label", "the number or the letter of the right one")
    at = int(name) if name.isdecimal() else _letter(name)
    if not 0 <= at < len(choices):
        last = len(choices) - 1
        raise DataError(
            f"{place}: the right one is {name[:60]!r}, there are {len(choices)} choices",
            f"a number from 0 to {last}, or a letter from A to {chr(ord('A') + last)}",
        )
    return at


def _letter(name: str) -> int:
    """The index of a capital letter in the alphabet, or -1."""
    return ord(name) - ord("A") if len(name) == 1 and name.isascii() and name.isupper() else -1


def _tagged(task: Tag, source: ExampleSource, labelled: bool) -> Iterator[TaggedExample]:
    if isinstance(source, Path) and is_tagged_file(source):
        yield from read_tagging(in_columns(task, source), source, labelled)
        return
    rows = rows_of(source, (task.words,), (task.tags,), labelled)
    for key, place, (cell, tags_cell) in rows:
        sentence = words(cell, place, task.words)
        tags = words(tags_cell, place, task.tags) if labelled or tags_cell is not None else ()
        if not sentence:
            raise DataError(f"{place}: {task.words!r} has no words")
        if len(tags) != len(sentence) and (labelled or tags):
            raise DataError(
                f"{place}: {several(len(sentence), 'word')} and {several(len(tags), 'tag')}",
                "a tag for each word",
            )
        if not task.labels or names_spans(task.labels):
            tags = bio(tags)
        for tag in tags:
            if task.labels or not tag:
                known_label(tag, task.labels, place, "tag")
        yield TaggedExample(key, sentence, tags)


def _asked(task: Read, source: ExampleSource, labelled: bool) -> Iterator[QuestionExample]:
    text_columns = (task.passage, task.text)
    answer_columns = (task.target, task.start)
    rows = rows_of(source, text_columns, answer_columns, labelled)
    for key, place, (passage, question, answer, start) in rows:
        context = text(passage, place, task.passage)
        question_text = text(question, place, task.text)
        if answer is None and not labelled:
            yield QuestionExample(key, context, question_text, (), None)
            continue
        answers = tuple(
            checked_answer(answer_text, first, context, place)
            for answer_text, first in _answers(task, answer, start, place)
        )
        if not answers and not task.unanswerable:
            raise DataError(f"{place}: an empty answer", "unanswerable=true allows them")
        yield QuestionExample(key, context, question_text, answers, bool(answers))


def _answers(task: Read, answer: Any, start: Any, place: str) -> list[tuple[str, int]]:
    """The answers in a row, each with its first character."""
    if not task.start:
        answer_texts = texts(member(answer, "text", list, place), place, "text")
        starts = member(answer, "answer_start", list, place)
    else:
        answer_text = text(answer, place, task.target)
        answer_texts, starts = (answer_text,) if answer_text else (), [start] if answer_text else []
    if len(answer_texts) != len(starts):
        raise DataError(f"{place}: {len(answer_texts)} answers with {len(starts)} beginnings")
    firsts = [number(first, place, task.start or "answer_start") for first in starts]
    for first in firsts:
        if first != int(first):
            raise DataError(f"{place}: an answer begins at {first:g}, a whole number expected")
    return [
        (answer_text, int(first)) for answer_text, first in zip(answer_texts, firsts, strict=True)
    ]


def rows_of(
    source: ExampleSource,
    required: tuple[str, ...],
    answer_columns: tuple[str, ...],
    labelled: bool,
) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Key, place and cells of each row; the key is its ``id``, else its number.

    A column without a name has empty cells; with ``labelled`` those of answers must be there.
    """
    columns = (
        ColumnSelection((*required, *answer_columns))
        if labelled
        else ColumnSelection(required, answer_columns)
    )
    if columns.numbered:
        yield from ((str(i), *row) for i, row in enumerate(table(source, columns)))
        return
    columns = replace(columns, optional=(*columns.optional, "id"))
    for i, (place, (*cells, key)) in enumerate(table(source, columns)):
        yield label(key, place, "id") or str(i), place, tuple(cells)
