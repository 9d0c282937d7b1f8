"""Labelled examples as in their files, before tokenisation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LabelledExample:
    """One text or a pair, with its label, None if unknown."""

    key: str
    texts: tuple[str, ...]
    label: str | None


@dataclass(frozen=True)
class ScoredExample:
    """One text or a pair, with its score, None if unknown."""

    key: str
    texts: tuple[str, ...]
    score: float | None


@dataclass(frozen=True)
class ChoiceExample:
    """A question with choices; ``answer`` is the index of the answer, None if unknown.

    ``passage`` is empty if there is none.
    """

    key: str
    passage: str
    question: str
    choices: tuple[str, ...]
    answer: int | None


@dataclass(frozen=True)
class TaggedExample:
    """The words of a sentence with their tags; no tags if unknown."""

    key: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class QuestionExample:
    """A question about a passage, with all gold answers: (text, first character).

    ``has_answer``: whether the passage has an answer, None if unknown.
    """

    key: str
    passage: str
    question: str
    answers: tuple[tuple[str, int], ...]
    has_answer: bool | None


@dataclass(frozen=True)
class RelatedExample:
    """Texts to embed: one alone, or one with a text like it and perhaps one unlike it.

    ``score`` says how alike the first two are, None if unknown.
    """

    key: str
    texts: tuple[str, ...]
    score: float | None


Example = (
    LabelledExample
    | ScoredExample
    | ChoiceExample
    | TaggedExample
    | QuestionExample
    | RelatedExample
)
