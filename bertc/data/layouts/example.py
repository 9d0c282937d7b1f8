"""Labelled examples as in their files, before tokenisation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Labelled:
    """One text or a pair, with its label, None if unknown."""

    key: str
    texts: tuple[str, ...]
    label: str | None


@dataclass(frozen=True)
class Scored:
    """One text or a pair, with its score, None if unknown."""

    key: str
    texts: tuple[str, ...]
    score: float | None


@dataclass(frozen=True)
class Chosen:
    """A question with choices; ``right`` is the index of the answer, None if unknown.

    ``passage`` is empty if there is none.
    """

    key: str
    passage: str
    question: str
    choices: tuple[str, ...]
    right: int | None


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence with their tags; no tags if unknown."""

    key: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """A question about a passage, with all gold answers: (text, first character).

    ``answered``: whether the passage has an answer, None if unknown.
    """

    key: str
    passage: str
    question: str
    answers: tuple[tuple[str, int], ...]
    answered: bool | None


Example = Labelled | Scored | Chosen | Tagged | Asked
