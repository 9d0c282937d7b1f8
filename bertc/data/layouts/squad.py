"""The files of SQuAD: passages, questions, and answers with their positions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import is_file, user_path
from bertc.data.layouts.documents import member, read_document
from bertc.data.layouts.example import QuestionExample
from bertc.data.layouts.find import DataPart, DataParts, files_of, only, packed
from bertc.data.sources.cells import text
from bertc.ir.learning.task import Squad


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


def read_squad(path: Path, unanswerable: bool, labelled: bool) -> list[QuestionExample]:
    """Read the questions of a file; if ``labelled`` each has an answer or is marked impossible."""
    examples = []
    for place, passage, question in _questions(path):
        key = member(question, "id", str, place)
        question_text = text(member(question, "question", str, place), place, "question")
        none = question.get("is_impossible", False)
        answers = () if none else tuple(_answers(question, passage, place))
        if labelled and not none and not answers:
            raise DataError(
                f'{place}: no answers, and "is_impossible" is not true',
                "questions to train on or to judge by need an answer",
            )
        if none and labelled and not unanswerable:
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
