"""The files of SQuAD and RACE: passages, questions about them, and their answers, as JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from bertc.base.diagnostics import DataError, listed, nearest
from bertc.base.storage.paths import is_file, is_folder, no_text, user_path
from bertc.ir.learning.task import Race, Squad
from bertc.tasks.layouts.example import ChoiceExample, QuestionExample
from bertc.tasks.layouts.find import DataPart, DataParts, files_of, only, packed
from bertc.tasks.layouts.table import opened_file
from bertc.text.sources.cells import text, texts
from bertc.text.sources.streams import chunks, decode

JsonValue = TypeVar("JsonValue", str, int, list[Any], dict[str, Any])

_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


def read_document(path: Path) -> Any:
    """The value in a JSON file."""
    with opened_file(path) as file:
        content = decode(b"".join(chunks(file)), path, 1)
    if not content.strip():
        raise DataError(f"{path}:1: the file is empty", "a JSON object")
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        help = "the file may be cut short; copy or download it again"
        raise DataError(
            f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg.lower()}",
            no_text(path)[1] if error.msg == "Extra data" else help,
        ) from None
    except RecursionError:
        raise DataError(f"{path}:1: not JSON: too deep") from None


def member(thing: Any, name: str, kind: type[JsonValue], place: str) -> JsonValue:
    """The member of an object, checked to be of a type."""
    if not isinstance(thing, dict):
        raise DataError(f"{place}: an object with {name!r} expected, not {thing!r}"[:300])
    if name not in thing:
        near = nearest(name, thing)
        raise DataError(
            f"{place}: no {name!r}; there are {listed(thing) or 'none'}",
            f"the nearest is {near!r}" if near else "",
        )
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
        files = files_of(task.data)
        version = (r"1\.1", r"2\.0")[task.version - 1]
        for part in ("train", "dev", "test"):
            if path := only(files, packed(rf"{part}-v{version}(\..*)?\.json"), task.data):
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
            raise DataError(
                f'{place}: no answers, and "is_impossible" is not true',
                "questions to train on or to judge by need an answer",
            )
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


LETTERS = ("A", "B", "C", "D")


def race_parts(task: Race) -> DataParts:
    """The folders ``train``, ``dev`` and ``test``."""
    files = files_of(task.data)
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
                raise DataError(
                    f"{place}: {len(values)} {what} for {len(questions)} questions",
                    "as many as there are questions",
                )
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
