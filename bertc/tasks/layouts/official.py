"""The files of GLUE, XNLI, SQuAD and RACE: columns of tables, passages and questions as JSON."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from bertc.base.diagnostics import DataError, listed, nearest
from bertc.base.storage.files import no_text, suffix
from bertc.base.storage.paths import is_file, is_folder, user_path
from bertc.ir.learning.task import GLUE_LABELS, Glue, Race, Squad, Xnli
from bertc.tasks.layouts import table as tables
from bertc.tasks.layouts.example import ChoiceExample, QuestionExample, TextExample
from bertc.tasks.layouts.table import DataPart, DataParts, packed
from bertc.text.sources.cells import label_in, number, text, texts
from bertc.text.sources.source import chunks, decode, opened_stream
from bertc.text.sources.tables import ColumnNames, ColumnSelection, TableRow

SCORES = (0.0, 5.0)
WITHHELD = ("", "-", "hidden", "-1")
"""Values in place of a label that is withheld."""
_PAIR, _STRINGS = ("sentence1", "sentence2"), ("#1 String", "#2 String")
_QUESTIONS = ("question1", "question2")
_NLI = ("index", *_PAIR, "label")
_MNLI = (
    *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
    *("sentence1_parse", "sentence2_parse", *_PAIR, "label1", "gold_label"),
)
_STSB = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *_PAIR, "score")
TASK_COLUMNS: dict[str, tuple[ColumnNames, ColumnNames, str]] = {
    "cola": (("source", "label", "mark", "sentence"), ("sentence",), "label"),
    "sst2": (("sentence", "label"), ("sentence",), "label"),
    "mrpc": (("Quality", "#1 ID", "#2 ID", *_STRINGS), _STRINGS, "Quality"),
    "stsb": (_STSB, _PAIR, "score"),
    "qqp": (("id", "qid1", "qid2", *_QUESTIONS, "is_duplicate"), _QUESTIONS, "is_duplicate"),
    "mnli": (_MNLI, _PAIR, "gold_label"),
    "qnli": (("index", "question", "sentence", "label"), ("question", "sentence"), "label"),
    "rte": (_NLI, _PAIR, "label"),
    "wnli": (_NLI, _PAIR, "label"),
    "ax": (_NLI, _PAIR, "label"),
}
"""All columns of a training file, those of the texts, and that of the label."""
_AX = {"Premise": "sentence1", "Hypothesis": "sentence2", "Label": "label"}
_XNLI = ("premise", "hypothesis", "label")
_XNLI_SPELLINGS = {
    "sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label",  # xnli.dev.tsv
    "hypo": "hypothesis",  # multinli.train.de.tsv
}  # fmt: skip
JsonValue = TypeVar("JsonValue", str, int, list[Any], dict[str, Any])
_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "an object"}
LETTERS = ("A", "B", "C", "D")


def glue_parts(task: Glue) -> DataParts:
    """The official files, compressed or not, and csv files of STS-B in other languages."""
    files = tables.files_of(task.data)
    parts: tuple[str, ...] = ("train", "dev", "test")
    if task.task == "mnli":
        parts = ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
    endings = (".tsv", ".csv") if task.task == "stsb" else (".tsv",)
    names = {name: [name + ending for ending in endings] for name in parts}
    if task.task == "ax":
        names = {"dev": ["diagnostic-full.tsv"], "test": ["diagnostic.tsv"]}
    paths = ((name, tables.first(files, stems)) for name, stems in names.items())
    return {name: DataPart(path) for name, path in paths if path}


def read_glue(task: Glue, part: DataPart) -> list[TextExample]:
    """Read the examples of a file."""
    all_columns, texts, label_column = TASK_COLUMNS[task.task]
    if suffix(part.file) == ".csv":
        all_columns = (*_PAIR, "score")
    selection = ColumnSelection(
        required=(*texts, label_column) if part.labelled else texts,
        optional=() if part.labelled else (label_column,),
        unnamed=(all_columns,),
        spellings=_AX if task.task == "ax" else {},
        short=task.task == "qqp",  # the official train.tsv breaks a few rows
    )
    rows = tables.table(part.file, selection)
    if task.task != "stsb":
        return _with_labels(rows, (*texts, label_column), GLUE_LABELS[task.task], part)
    hidden = () if part.labelled else (None, *WITHHELD)
    examples = []
    for i, (place, (*pair, cell)) in enumerate(rows):
        score = None if cell in hidden else number(cell, place, label_column, SCORES)
        examples.append(TextExample(str(i), tuple(pair), score))
    return examples


def xnli_parts(task: Xnli) -> DataParts:
    """Files such as ``dev-de.tsv``, or ``xnli.dev.tsv`` with all languages."""
    files = tables.files_of(task.data)
    language = task.language
    train = tables.first(files, (f"train-{language}.tsv", f"multinli.train.{language}.tsv"))
    parts: DataParts = {"train": DataPart(train)} if train else {}
    for part in ("dev", "test"):
        for name, path in files.items():
            if match := re.match(packed(rf"{part}-([A-Za-z]+)\.tsv"), name):
                parts[f"{part}-{match[1]}"] = DataPart(path)
        if official := tables.first(files, (f"xnli.{part}.tsv",)):
            rows = tables.table(official, ColumnSelection(("language",)))
            for of_rows in sorted({str(cells[0]) for _, cells in rows}):
                parts.setdefault(f"{part}-{of_rows}", DataPart(official, of_rows))
    dev_part = f"dev-{language}"
    if not train and dev_part in parts:
        parts["train"] = parts.pop(dev_part)
    return parts


def read_xnli(_: Xnli, part: DataPart) -> list[TextExample]:
    """Read the examples of a file, or of its rows in one language."""
    required, optional = (_XNLI, ()) if part.labelled else (_XNLI[:2], _XNLI[2:])
    unnamed = (_XNLI,) if part.labelled else (_XNLI, _XNLI[:2])
    if language := part.language:
        required = ("language", *required)
    rows = tables.table(part.file, ColumnSelection(required, optional, unnamed, _XNLI_SPELLINGS))
    if language:
        rows = (row._replace(cells=row.cells[1:]) for row in rows if row.cells[0] == language)
    return _with_labels(rows, _XNLI, GLUE_LABELS["mnli"], part)


def _with_labels(
    rows: Iterable[TableRow], columns: ColumnNames, labels: ColumnNames, part: DataPart
) -> list[TextExample]:
    """The examples of rows of ``columns``, the label last; to learn from without ``-``."""
    examples = []
    for i, (place, (*cells, cell)) in enumerate(rows):
        if part.labelled and labels == GLUE_LABELS["mnli"] and cell == "-":
            continue
        cell = "contradiction" if cell == "contradictory" else cell  # multinli.train.de.tsv
        texts = tuple(text(c, place, name) for c, name in zip(cells, columns[:-1], strict=True))
        name = label_in(cell, place, columns[-1], labels, () if part.labelled else WITHHELD)
        examples.append(TextExample(str(i), texts, name))
    return examples


def read_document(path: Path) -> Any:
    """The value in a JSON file."""
    with opened_stream(path) as file:
        content = decode(b"".join(chunks(file)), path, 1)
    if not content.strip():
        raise DataError(f"{path}:1: the file is empty", "a JSON object")
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        help = "the file may be cut short; copy or download it again"
        message = f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg.lower()}"
        raise DataError(message, no_text(path)[1] if error.msg == "Extra data" else help) from None
    except RecursionError:
        raise DataError(f"{path}:1: not JSON: too deep") from None


def member(thing: Any, name: str, kind: type[JsonValue], place: str) -> JsonValue:
    """The member of an object, checked to be of a type."""
    if not isinstance(thing, dict):
        raise DataError(f"{place}: an object with {name!r} expected, not {thing!r}"[:300])
    if name not in thing:
        near = nearest(name, thing)
        message = f"{place}: no {name!r}; there are {listed(thing) or 'none'}"
        raise DataError(message, f"the nearest is {near!r}" if near else "")
    value = thing[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{place}: {name!r} is {value!r}"[:200] + f", {_NAMES[kind]} expected")
    return value


def squad_parts(task: Squad) -> DataParts:
    """The official files of a folder, or the files that the task names."""
    data = user_path(task.data)
    parts: DataParts = {}
    if is_file(data):
        parts["train"] = DataPart(data)
    else:
        files = tables.files_of(task.data)
        version = (r"1\.1", r"2\.0")[task.version - 1]
        for part in ("train", "dev", "test"):
            if path := tables.only(files, packed(rf"{part}-v{version}(\..*)?\.json"), task.data):
                parts[part] = DataPart(path)
    if task.dev:
        parts["dev"] = DataPart(user_path(task.dev))
    return parts


def read_squad(task: Squad, part: DataPart) -> list[QuestionExample]:
    """Read the questions of a file; if labelled each has an answer or is marked impossible."""
    examples = []
    for place, passage, question in _questions(part.file):
        key = member(question, "id", str, place)
        question_text = text(member(question, "question", str, place), place, "question")
        none = question.get("is_impossible", False)
        answers = () if none else tuple(_answers(question, passage, place))
        if part.labelled and not none and not answers:
            message = f'{place}: no answers, and "is_impossible" is not true'
            raise DataError(message, "questions to train on or to judge by need an answer")
        if none and part.labelled and task.version == 1:
            raise DataError(f"{place}: a question without an answer", "version=2 allows them")
        answered = False if none else (bool(answers) or None)
        examples.append(QuestionExample(key, passage, question_text, answers, answered))
    return examples


def checked_answer(answer: str, start: int, passage: str, place: str) -> tuple[str, int]:
    """An answer and its first character, checked against the passage."""
    if not answer.strip():
        raise DataError(f"{place}: an empty answer, text of the passage expected")
    if start < 0 or passage[start : start + len(answer)] != answer:
        actual = passage[start : start + len(answer)]
        nearby = passage.find(answer)
        raise DataError(
            f"{place}: at character {start} of the passage is {actual[:60]!r}, "
            f"the answer {answer[:60]!r} expected",
            f"it is at {nearby}" if nearby >= 0 else "it is nowhere in the passage",
        )
    return answer, start


def _questions(path: Path) -> Iterator[tuple[str, str, Any]]:
    for i, article in enumerate(member(read_document(path), "data", list, str(path))):
        place = f"{path}: data[{i}]"
        for j, paragraph in enumerate(member(article, "paragraphs", list, place)):
            inner = f"{place}.paragraphs[{j}]"
            passage = text(member(paragraph, "context", str, inner), inner, "context")
            for k, question in enumerate(member(paragraph, "qas", list, inner)):
                yield f"{inner}.qas[{k}]", passage, question


def _answers(question: dict[str, Any], passage: str, place: str) -> Iterator[tuple[str, int]]:
    if question.get("answers") is None:
        return
    for i, answer in enumerate(member(question, "answers", list, place)):
        inner = f"{place}.answers[{i}]"
        start = member(answer, "answer_start", int, inner)
        yield checked_answer(member(answer, "text", str, inner), start, passage, inner)


def race_parts(task: Race) -> DataParts:
    """The folders ``train``, ``dev`` and ``test``."""
    files = tables.files_of(task.data)
    return {part: DataPart(files[part]) for part in ("train", "dev", "test") if part in files}


def read_race(_: Race, part: DataPart) -> list[ChoiceExample]:
    """Read the questions of the files of a folder, or of one."""
    examples, path = list[ChoiceExample](), part.file
    for file in sorted(path.rglob("*.txt")) if is_folder(path) else [path]:
        place, passage = str(file), read_document(file)
        article = text(member(passage, "article", str, place), place, "article")
        questions = texts(member(passage, "questions", list, place), place, "questions")
        options = member(passage, "options", list, place)
        answers = passage.get("answers")
        if part.labelled:
            answers = member(passage, "answers", list, place)
        for what, values in (("options", options), ("answers", answers)):
            if values is not None and len(values) != len(questions):
                message = f"{place}: {len(values)} {what} for {len(questions)} questions"
                raise DataError(message, "as many as there are questions")
        key = str(passage.get("id", file.relative_to(path).as_posix()))
        for i, question in enumerate(questions):
            choices = texts(options[i], place, f"options[{i}]")
            if len(choices) != len(LETTERS):
                raise DataError(f"{place}: {len(choices)} choices in options[{i}], 4 expected")
            if answers is not None and answers[i] not in LETTERS:
                wrong = f"{place}: answers[{i}] is {answers[i]!r}"[:200]
                raise DataError(f"{wrong}, one of A, B, C, D expected")
            answer = None if answers is None else LETTERS.index(answers[i])
            examples.append(ChoiceExample(f"{key}-{i}", article, question, choices, answer))
    return examples
