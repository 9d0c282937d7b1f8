"""Labelled examples as in their files, before tokenisation, and their gold answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertc.base.diagnostics import DataError

AnswerValue = str | int | float | tuple[str, ...] | tuple[float, ...]
"""An answer: a label, several, the number of a choice, scores, a tag for each word, or a text.

The text of a span is "" for no answer; of pairs without a score it is how many texts are more like
the first than its positive. Of a query it is the keys of documents, the nearest first.
"""


@dataclass(frozen=True)
class TextExample:
    """One text or a pair, with its label, labels, score or scores, None if unknown.

    To embed also a text like it and some unlike it; a score says how alike the first two are, or
    several how a teacher scores each text but the first.
    """

    key: str
    texts: tuple[str, ...]
    answer: str | float | tuple[str, ...] | tuple[float, ...] | None


@dataclass(frozen=True)
class ChoiceExample:
    """A question and perhaps a passage, choices, and the index of the answer if known."""

    key: str
    passage: str
    question: str
    choices: tuple[str, ...]
    answer: int | None


@dataclass(frozen=True)
class TaggedExample:
    """The words of a sentence, or of ``text``, with their tags; no tags if unknown."""

    key: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    text: str = ""


@dataclass(frozen=True)
class QuestionExample:
    """A question about a passage, gold answers (text, first character), whether there is one."""

    key: str
    passage: str
    question: str
    answers: tuple[tuple[str, int], ...]
    has_answer: bool | None


@dataclass(frozen=True)
class SearchExample:
    """A query with its relevant documents and their grades, or a document, which has None."""

    key: str
    text: str
    relevant: tuple[tuple[str, float], ...] | None


Example = TextExample | ChoiceExample | TaggedExample | QuestionExample | SearchExample
Examples = Sequence[Example]


def asked(examples: Examples) -> Examples:
    """Examples that are scored: of a search its queries, which come before the documents."""
    return [e for e in examples if not isinstance(e, SearchExample) or e.relevant is not None]


def gold(example: Example) -> AnswerValue:
    """The gold answer; for a question the tuple of all right answers."""
    known: AnswerValue | None
    match example:
        case TextExample() | ChoiceExample():
            known = example.answer
        case SearchExample():
            known = tuple(key for key, _ in example.relevant or ())
        case TaggedExample():
            known = example.tags if example.tags or not example.words else None
        case QuestionExample():
            answered = example.answers or example.has_answer is False
            known = tuple(text for text, _ in example.answers) if answered else None
    if known is None:
        message = f"example `{example.key[:40]}` has no label"
        raise DataError(message, "evaluate a part with labels; `bertc predict` answers the others")
    return known
