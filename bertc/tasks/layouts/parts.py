"""The parts of each task and their examples, also of custom files; only this knows all layouts."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

from bertc.base.diagnostics import DataError, MissingInputError, listed, several
from bertc.base.storage.paths import check_path, is_file, is_taken, names_in, user_path
from bertc.ir.data import Hf
from bertc.ir.learning import AnyTask, Choose, Classify, Embed, Many, Read, Regress, Rerank, Tag
from bertc.ir.learning.answer import Several, names_spans
from bertc.ir.learning.custom_task import Spans
from bertc.ir.learning.task import Glue, OwnTask, Race, Squad, Tagging, Xnli
from bertc.tasks.layouts import example, official, table
from bertc.tasks.layouts.conll import bio, in_columns, read_tagging, tagging_parts
from bertc.tasks.layouts.related import read_ranked, read_texts, related
from bertc.tasks.layouts.table import DataPart, DataParts, ExampleSource, source_name
from bertc.text.sources import cells as read


def own_parts(task: OwnTask) -> DataParts:
    """The parts that the task names; that of ``sts`` is called ``dev-sts``, of a search as well."""
    parts = {
        part: DataPart(rows if isinstance(rows, Hf) else user_path(rows))
        for part in CUSTOM_PARTS
        if (rows := getattr(task, part))
    }
    if isinstance(task, Embed) and task.sts:
        parts["dev-sts"] = DataPart(user_path(task.sts), sts=True)
    if isinstance(task, Embed) and task.corpus:
        parts["dev-corpus"] = DataPart(user_path(task.corpus), search=True)
    return parts


def read_answered(task: Classify | Regress, part: DataPart) -> Iterator[example.TextExample]:
    """Read texts or pairs with labels or scores."""
    columns = (task.text, task.pair) if task.pair else (task.text,)
    for key, place, cells in table.rows_of(part, columns, task.columns):
        texts, answers = cells[: len(columns)], cells[len(columns) :]
        answer = _answer(task, answers, place, part)
        yield example.TextExample(key, read_texts(texts, columns, place), answer)


def _answer(
    task: Classify | Regress, cells: Sequence[Any], place: str, part: DataPart
) -> str | float | tuple[str, ...] | tuple[float, ...] | None:
    """The label, labels, score or scores in the cells of a row."""
    names, first, hidden = task.columns, cells[0], () if part.labelled else read.NO_ANSWER
    several = isinstance(task.answer, Several)
    if not part.labelled and any(cell is None or (cell == "" and not several) for cell in cells):
        return None
    if isinstance(task, Regress):
        by_column = zip(cells, names, strict=True)
        scores = tuple(read.number(c, place, name, text_column=task.text) for c, name in by_column)
        return scores[0] if isinstance(task.label, str) else scores
    if isinstance(task.labels, Many) and several:
        if first is None:
            raise DataError(f"{place}: no labels in {names[0]!r}", "an empty list for none of them")
        return read.labels_in(first, place, names[0], task.labels.separator, task.names)
    if several:
        flags = zip(cells, names, strict=True)
        return tuple(name for cell, name in flags if read.flag(cell, place, name))
    return read.label_in(first, place, names[0], task.names, hidden, task.text)


def read_choices(task: Choose, part: DataPart) -> Iterator[example.ChoiceExample]:
    """Read questions with choices."""
    rows = table.rows_of(part, (task.passage, task.text, *task.choices), (task.label,))
    for key, place, (passage, question, *cells, cell) in rows:
        choices = _choices(task, cells, place)
        name = read.label(cell, place, task.label)
        yield example.ChoiceExample(
            key, read.text(passage, place, task.passage) if task.passage else "",
            read.text(question, place, task.text), choices,
            _right(name, choices, place) if name or part.labelled else None,
        )  # fmt: skip


def _choices(task: Choose, cells: list[Any], place: str) -> tuple[str, ...]:
    """The choices of a row; the last columns may be empty."""
    if len(task.choices) == 1:
        choices = read.texts(cells[0], place, task.choices[0])
    else:
        choices = read_texts(["" if cell is None else cell for cell in cells], task.choices, place)
        while choices and not choices[-1].strip():
            choices = choices[:-1]
    most = task.answer.most
    if not 2 <= len(choices) <= most:
        message = f"{place}: {len(choices)} choices, 2 to {most} expected"
        raise DataError(message, f"most={len(choices)}" if len(choices) > most else "")
    return choices


def _right(name: str, choices: tuple[str, ...], place: str) -> int:
    if not name:
        raise DataError(f"{place}: no label", "the number or the letter of the right one")
    letter = ord(name) - ord("A") if len(name) == 1 else -1
    number = int(name) if name.isdecimal() else letter
    if not 0 <= number < len(choices):
        last = len(choices) - 1
        message = f"{place}: the right one is {name[:60]!r}, there are {len(choices)} choices"
        help = f"a number from 0 to {last}, or a letter from A to {chr(ord('A') + last)}"
        raise DataError(message, help)
    return number


def read_tagged(task: Tag | Spans, part: DataPart) -> Iterator[example.TaggedExample]:
    """Read sentences with a tag for each word."""
    if isinstance(part.source, Path) and table.is_tagged_file(part.source):
        yield from read_tagging(in_columns(task, part.source), part)
        return
    for key, place, (cell, tags_cell) in table.rows_of(part, (task.words,), (task.tags,)):
        named, letters = isinstance(task, Spans), isinstance(task, Tag) and task.letters
        split, word = (read.letters, "letter") if letters else (read.words, "word")
        text = read.text(cell, place, task.words) if named and isinstance(cell, str) else ""
        sentence = (*read.PART.findall(text),) if text else split(cell, place, task.words)
        known = part.labelled or tags_cell is not None
        listed = read.span_tags(tags_cell, len(sentence), place, task.tags) if named else None
        tags = listed or (split(tags_cell, place, task.tags) if known else ())
        if not sentence:
            raise DataError(f"{place}: {task.words!r} has no {word}s", "take the row out")
        if len(tags) != len(sentence) and (part.labelled or tags):
            message = f"{place}: {several(len(sentence), word)} and {several(len(tags), 'tag')}"
            raise DataError(message, f"a tag for each {word}")
        if named or not task.labels or names_spans(task.labels):
            tags = bio(tags)
        tags = tuple(normalize("NFC", tag) for tag in tags)
        if wrong := [tag for tag in tags if named and not re.match("O$|[BIES]-.", tag)]:
            message = f"{place}: the tag {wrong[0][:60]!r} marks no span"
            raise DataError(message, "B-person, I-person, O, with any name")
        if not named and (task.labels or "" in tags):
            tags = tuple(read.known_label(tag, task.labels, place, "tag") for tag in tags)
        yield example.TaggedExample(key, sentence, tags, text)


def read_questions(task: Read, part: DataPart) -> Iterator[example.QuestionExample]:
    """Read questions about passages."""
    rows = table.rows_of(part, (task.passage, task.text), (task.target, task.start))
    for key, place, (passage, question, answer, start) in rows:
        context = read.text(passage, place, task.passage)
        question_text = read.text(question, place, task.text)
        if answer is None and not part.labelled:
            yield example.QuestionExample(key, context, question_text, (), None)
            continue
        read_answers = _answers(task, answer, start, place)
        answers = tuple(official.checked_answer(*pair, context, place) for pair in read_answers)
        if not answers and not task.unanswerable:
            raise DataError(f"{place}: an empty answer", "unanswerable=true allows them")
        yield example.QuestionExample(key, context, question_text, answers, bool(answers))


def _answers(task: Read, answer: Any, start: Any, place: str) -> Iterator[tuple[str, int]]:
    if task.start:
        answer_texts: tuple[str, ...] = tuple(filter(None, [read.text(answer, place, task.target)]))
        starts = [start] * len(answer_texts)
    else:
        answer_texts = read.texts(official.member(answer, "text", list, place), place, "text")
        starts = official.member(answer, "answer_start", list, place)
    if len(answer_texts) != len(starts):
        raise DataError(f"{place}: {len(answer_texts)} answers with {len(starts)} beginnings")
    for answer_text, cell in zip(answer_texts, starts, strict=True):
        first = read.number(cell, place, task.start or "answer_start")
        if first != int(first):
            raise DataError(f"{place}: an answer begins at {first:g}, a whole number expected")
        yield answer_text, int(first)


LAYOUTS: Mapping[
    type, tuple[Callable[[Any], DataParts], Callable[[Any, DataPart], Iterable[example.Example]]]
] = {
    Glue: (official.glue_parts, official.read_glue),
    Xnli: (official.xnli_parts, official.read_xnli),
    Squad: (official.squad_parts, official.read_squad),
    Race: (official.race_parts, official.read_race),
    Tagging: (tagging_parts, read_tagging),
    Classify: (own_parts, read_answered), Regress: (own_parts, read_answered),
    Choose: (own_parts, read_choices), Tag: (own_parts, read_tagged),
    Spans: (own_parts, read_tagged),
    Read: (own_parts, read_questions), Embed: (own_parts, related),
    Rerank: (own_parts, read_ranked),
}  # fmt: skip
"""The parts of each kind of task, by name, and the reading of one."""
CUSTOM_PARTS = ("train", "dev", "test")
"""Parts of custom tasks, each named by an argument."""
OFFICIAL = {
    "glue": "train.tsv, dev.tsv", "xnli": "train-en.tsv, dev-de.tsv",
    "squad": "train-v1.1.json, dev-v2.0.json, as version= says", "race": "train/high/1.txt",
    "tagging": "eng.train, eng.testa or en-ud-train.conllu",
}  # fmt: skip
"""Examples of file names in the folder of an official task."""


def dev_parts(task: AnyTask) -> tuple[str, ...]:
    """The dev parts of a task; refuse missing files of any part but the training one."""
    parts = named_parts(task)
    for name, part in parts.items():
        if name != "train":
            check_there(task, name, part.source)
    return tuple(name for name in parts if name.startswith("dev"))


def check_there(task: AnyTask, part: str, source: ExampleSource) -> None:
    """Refuse a part whose file is missing."""
    if isinstance(source, Path) and not is_taken(source):
        raise MissingInputError(f"{task.title}: no {part} file {source}", check_path(source))


def scored_parts(task: AnyTask, part: str = "", any_file: bool = False) -> DataParts:
    """The parts that a model is scored on: ``part`` and its variants (``test-de``), else dev."""
    data = getattr(task, "data", "")
    if data and not getattr(task, "dev", "") and is_file(user_path(data)):
        if part:
            raise MissingInputError(f"{data} is one file and has no parts", "leave the part out")
        return {data: DataPart(user_path(data))}
    parts = named_parts(task)
    stem = part or "dev"
    variants = (f"{stem}-", f"{stem}_")
    chosen = {n: p for n, p in parts.items() if n == stem or n.startswith(variants)}
    if part and not chosen:
        named = f"--task \"{task.kind}({part}='...')\""
        part_named(task, part, named if part in CUSTOM_PARTS else "check its name")
    if chosen or data or not any_file:
        return chosen
    # A custom task calls its first file train; here it is just a named file.
    return {source_name(p.source) if name == "train" else name: p for name, p in parts.items()}


def part_examples(task: AnyTask, part: str = "train") -> list[example.Example]:
    """The examples of a part by name; those of test parts may have no answers."""
    named = part_named(task, part)._replace(labelled=not part.startswith("test"))
    first, *_ = examples = read_examples(task, named)
    single = isinstance(first, example.TextExample) and len(first.texts) == 1
    if isinstance(task, Embed) and part == "dev" and single:
        message = f"{task.dev} has single texts, and a score compares at least two"
        raise DataError(message, "positive=COLUMN of a table, or sts=FILE instead of dev")
    return examples


def read_examples(task: AnyTask, part: DataPart) -> list[example.Example]:
    """The examples of any file of the task's layout."""
    return [*examples_of(task, part)]


def examples_of(task: AnyTask, part: DataPart) -> Iterator[example.Example]:
    """The same one by one, of a user's own file while it is read."""
    _, read = LAYOUTS[type(task)]
    empty = True
    for row in read(task, part):
        yield row
        empty = False
    if empty:
        name = source_name(part.source)
        raise DataError(f"{name}:1: no examples in it", "at least one is needed")


def part_named(task: AnyTask, name: str, help: str = "") -> DataPart:
    """The part of a name; ``help`` says how to name a missing one, by default in the task."""
    parts = named_parts(task)
    if name in parts:
        return parts[name]
    known = f"; there are {listed(parts)}" if parts else ""
    if isinstance(task, OwnTask):
        where, remedy = "", help or f"none is named: {task.kind}({name}=...)"
    else:
        where, remedy = f" in {task.data}", f"its files are called as in {OFFICIAL[task.kind]}"
        if not parts and (names := names_in(user_path(task.data))):
            known = f", which has {listed(names)}"
    if isinstance(task, Squad):
        remedy += "; or name files themselves: squad(TRAIN, DEV)"
    raise MissingInputError(f"{task.title}: no part {name!r}{where}{known}", remedy)


def named_parts(task: AnyTask) -> DataParts:
    """The parts of a task by name, whether their files are there or not."""
    parts, _ = LAYOUTS[type(task)]
    return parts(task)
