"""Gold answers of examples, in the type of a model's answers."""

from collections.abc import Sequence

from bertc.data.layouts.example import Asked, Chosen, Example, Labelled, Scored, Tagged
from bertc.diagnostics import DataError

Given = str | int | float | tuple[str, ...]
"""An answer: a label, the number of a choice, a score, a tag for each word, or a text.

The text of a span is "" for no answer.
"""


def gold(example: Example) -> Given:
    """The gold answer; for a question the tuple of all right answers.

    Raises:
        DataError: if the example has none.
    """
    known = _known(example)
    if known is None:
        raise DataError(
            f"example `{example.key[:40]}` has no label",
            "evaluate a part with labels; `bertc predict` answers the others",
        )
    return known


def _known(example: Example) -> Given | None:
    match example:
        case Labelled():
            return example.label
        case Scored():
            return example.score
        case Chosen():
            return example.right
        case Tagged():
            return example.tags if example.tags or not example.words else None
        case Asked():
            if example.answered is None or (example.answered and not example.answers):
                return None
            return tuple(text for text, _ in example.answers)


def asked(examples: Sequence[Example]) -> list[Asked]:
    """The same examples, typed as questions about passages."""
    questions = [example for example in examples if isinstance(example, Asked)]
    assert len(questions) == len(examples), "only questions about passages have spans"
    return questions
