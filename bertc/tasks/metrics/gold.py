"""Gold answers of examples, in the type of a model's answers."""

from collections.abc import Sequence

from bertc.base.diagnostics import DataError
from bertc.tasks.layouts.example import (
    ChoiceExample,
    Example,
    QuestionExample,
    SearchExample,
    TaggedExample,
    TextExample,
)

AnswerValue = str | int | float | tuple[str, ...] | tuple[float, ...]
"""An answer: a label, several, the number of a choice, scores, a tag for each word, or a text.

The text of a span is "" for no answer; of pairs without a score it is how many texts are more like
the first than its positive. Of a query it is the keys of documents, the nearest first.
"""
AnswerValues = Sequence[AnswerValue]


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
        raise DataError(
            f"example `{example.key[:40]}` has no label",
            "evaluate a part with labels; `bertc predict` answers the others",
        )
    return known
