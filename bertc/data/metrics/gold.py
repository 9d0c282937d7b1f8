"""Gold answers of examples, in the type of a model's answers."""

from bertc.base.diagnostics import DataError
from bertc.data.layouts.example import (
    ChoiceExample,
    Example,
    LabelledExample,
    QuestionExample,
    RelatedExample,
    ScoredExample,
    TaggedExample,
)

AnswerValue = str | int | float | tuple[str, ...]
"""An answer: a label, the number of a choice, a score, a tag for each word, or a text.

The text of a span is "" for no answer; of pairs without a score it is how many texts are more like
the first than its positive.
"""
NEAREST = 0
"""The answer to such a pair if its positive is nearest."""


def gold(example: Example) -> AnswerValue:
    """The gold answer; for a question the tuple of all right answers."""
    known = _known(example)
    if known is None:
        raise DataError(
            f"example `{example.key[:40]}` has no label",
            "evaluate a part with labels; `bertc predict` answers the others",
        )
    return known


def _known(example: Example) -> AnswerValue | None:
    match example:
        case LabelledExample():
            return example.label
        case ScoredExample():
            return example.score
        case ChoiceExample():
            return example.answer
        case RelatedExample(texts=texts, score=score):
            return NEAREST if score is None and len(texts) > 1 else score
        case TaggedExample():
            return example.tags if example.tags or not example.words else None
        case QuestionExample():
            if example.has_answer is None or (example.has_answer and not example.answers):
                return None
            return tuple(text for text, _ in example.answers)
