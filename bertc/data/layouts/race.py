"""The files of RACE: a passage, questions about it and four choices for each, as JSON."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import is_folder
from bertc.data.layouts.documents import member, read_document
from bertc.data.layouts.example import ChoiceExample
from bertc.data.layouts.find import DataPart, DataParts, files_of, first
from bertc.data.layouts.table import opened_file
from bertc.data.sources.cells import text, texts
from bertc.data.sources.streams import lines
from bertc.data.sources.tables import json_row
from bertc.ir.learning.task import Race

LETTERS = "ABCD"


def race_parts(task: Race) -> DataParts:
    """The folders ``train``, ``dev`` and ``test``, or files of JSON lines of these names."""
    files = files_of(task.data)
    parts: DataParts = {}
    for part in ("train", "dev", "test"):
        if path := first(files, (part, f"{part}.jsonl")):
            parts[part] = DataPart(path)
    return parts


def read_race(path: Path, labelled: bool) -> list[ChoiceExample]:
    """Read the questions of a folder, or of a file of JSON lines."""
    examples = []
    for name, place, passage in _passages(path):
        article = text(member(passage, "article", str, place), place, "article")
        questions = texts(member(passage, "questions", list, place), place, "questions")
        options = member(passage, "options", list, place)
        answers = member(passage, "answers", list, place) if labelled else passage.get("answers")
        for what, values in (("options", options), ("answers", answers)):
            if values is not None and len(values) != len(questions):
                raise DataError(
                    f"{place}: {len(values)} {what} for {len(questions)} questions",
                    "as many as there are questions",
                )
        key = str(passage.get("id", name))
        for i, question in enumerate(questions):
            choices = texts(options[i], place, f"options[{i}]")
            if len(choices) != len(LETTERS):
                raise DataError(f"{place}: {len(choices)} choices in options[{i}], 4 expected")
            answer = None if answers is None else _letter(answers[i], f"{place}: answers[{i}]")
            examples.append(ChoiceExample(f"{key}-{i}", article, question, choices, answer))
    return examples


def _letter(answer: Any, place: str) -> int:
    if not isinstance(answer, str) or len(answer) != 1 or answer not in LETTERS:
        raise DataError(f"{place} is {answer!r}"[:200] + ", one of A, B, C, D expected")
    return LETTERS.index(answer)


def _passages(path: Path) -> Iterator[tuple[str, str, Any]]:
    """The passages of a folder of JSON files, or of lines: name, place and JSON object."""
    if is_folder(path):
        for file in sorted(path.rglob("*.txt")):
            yield file.relative_to(path).as_posix(), str(file), read_document(file)
        return
    with opened_file(path) as lines_file:
        for number, line in lines(lines_file):
            if line.strip():
                place = f"{path}:{number}"
                yield str(number - 1), place, json_row(line, place)
