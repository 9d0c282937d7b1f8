"""The files of RACE: a passage, questions about it and four choices for each, as JSON."""

from pathlib import Path

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import is_folder
from bertc.data.layouts.documents import member, read_document
from bertc.data.layouts.example import ChoiceExample
from bertc.data.layouts.find import DataPart, DataParts, files_of
from bertc.data.sources.cells import text, texts
from bertc.ir.learning.task import Race

LETTERS = ("A", "B", "C", "D")


def race_parts(task: Race) -> DataParts:
    """The folders ``train``, ``dev`` and ``test``."""
    files = files_of(task.data)
    return {part: DataPart(files[part]) for part in ("train", "dev", "test") if part in files}


def read_race(path: Path, labelled: bool) -> list[ChoiceExample]:
    """Read the questions of the files of a folder, or of one."""
    examples = []
    for file in sorted(path.rglob("*.txt")) if is_folder(path) else [path]:
        place, passage = str(file), read_document(file)
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
