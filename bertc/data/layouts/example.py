"""Labelled examples as they stand in a file, before any token: what layouts give, tasks learn."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Labelled:
    """One text, or two, and the label if it is known."""

    key: str
    texts: tuple[str, ...]
    label: str | None


@dataclass(frozen=True)
class Scored:
    """One text, or two, and a number if it is known."""

    key: str
    texts: tuple[str, ...]
    score: float | None


@dataclass(frozen=True)
class Chosen:
    """A passage (empty if there is none), a question, and texts of which ``right`` is the one."""

    key: str
    passage: str
    question: str
    choices: tuple[str, ...]
    right: int | None


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence and their tags, none if they are not known."""

    key: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """A question about a passage, and all answers given: (text, first character).

    ``answered`` None: it is not known whether there is an answer.
    """

    key: str
    passage: str
    question: str
    answers: tuple[tuple[str, int], ...]
    answered: bool | None


Example = Labelled | Scored | Chosen | Tagged | Asked
