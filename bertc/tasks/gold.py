"""What is known of an example, beside what a model says of it."""

from collections.abc import Sequence

from bertc.data.layouts.example import Asked, Chosen, Example, Labelled, Scored, Tagged
from bertc.diagnostics import DataError

Given = str | int | float | tuple[str, ...]
"""What a model says: a label, the number of a choice, a score, a tag a word, or the text of a span
("" where it finds no answer)."""


def gold(example: Example) -> Given:
    """What is right; of a question all answers that are.

    Raises:
        DataError: if nobody says what is right.
    """
    known = _known(example)
    if known is None:
        raise DataError(
            f"example `{example.key[:40]}` says not what is right",
            "only a part with labels can be judged; `bertc predict` answers the others",
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
    """The same examples, all of which are questions."""
    questions = [example for example in examples if isinstance(example, Asked)]
    assert len(questions) == len(examples), "only questions about passages have spans"
    return questions
