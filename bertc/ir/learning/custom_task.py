"""Tasks on a user's own files, with named columns."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from bertc.ir.base import BY_KIND
from bertc.ir.learning.answer import (
    MOST_CHOICES,
    Answer,
    Choice,
    Labels,
    Score,
    Span,
)
from bertc.ir.learning.own_task import OwnTask
from bertc.ir.learning.task import (
    UNKNOWN,
    Choosing,
    Glue,
    Headed,
    Metric,
    Name,
    Names,
    OfWords,
    Race,
    Reading,
    Squad,
    Tagging,
    Xnli,
)
from bertc.ir.learning.vector_task import Embed


class _OfTexts(OwnTask, Headed):
    text: str = "text"
    pair: str = ""
    label: str = "label"

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "pair") if self.pair else ("text",)


class Classify(_OfTexts):
    """One of several labels for a text, or for two texts."""

    kind: Literal["classify"] = "classify"
    name: Name = "classify"
    labels: Names = ()

    @property
    def answer(self) -> Answer:
        return Labels(names=self.labels or UNKNOWN)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics by number of labels; F1 is of the second of two labels."""
        return ("accuracy", "f1") if len(self.labels) == 2 else ("accuracy",)


class Regress(_OfTexts):
    """A number for a text, or for two texts."""

    kind: Literal["regress"] = "regress"
    name: Name = "regress"

    @property
    def answer(self) -> Answer:
        return Score()


class Choose(OwnTask, Choosing):
    """The right one of several texts, after a question and optionally a passage.

    ``choices`` names their columns, or one column with a list of them; ``label`` is the index of
    the right one from 0, or its letter. Without a passage the question takes its place.
    """

    kind: Literal["choose"] = "choose"
    name: Name = "choose"
    passage: str = ""
    text: str = "question"
    choices: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_CHOICES)] = ("choices",)
    label: str = "label"
    most: Annotated[int, Field(ge=2, le=MOST_CHOICES)] = 4

    @property
    def answer(self) -> Choice:
        return Choice(most=len(self.choices) if len(self.choices) > 1 else self.most)

    @property
    def reads(self) -> tuple[str, ...]:
        return (*(("passage",) if self.passage else ()), "text", "choices")


class Tag(OwnTask, OfWords):
    """A tag per word, from columns with lists, or with text separated by white space.

    Files of a word a line are read too, CoNLL-2003's and CoNLL-U; ``tags`` may name a column.
    """

    kind: Literal["tag"] = "tag"
    name: Name = "tag"
    words: str = "words"
    tags: str = "tags"


class Read(OwnTask, Reading):
    """The span of a passage that answers a question; ``start`` is its character offset.

    A row with an empty answer is unanswerable, which ``unanswerable`` has to allow. Without a
    column ``start``, the answer column holds lists ``text`` and ``answer_start``, as in
    ``hf("squad")``.
    """

    kind: Literal["read"] = "read"
    name: Name = "read"
    passage: str = "context"
    text: str = "question"
    target: str = "answer"
    start: str = "start"
    unanswerable: bool = False

    @property
    def answer(self) -> Answer:
        return Span(head=self.head, unanswerable=self.unanswerable)


TaskKind = Glue | Xnli | Squad | Race | Tagging | Classify | Regress | Choose | Tag | Read | Embed
"""The closed union of tasks."""
AnyTask = Annotated[TaskKind, BY_KIND]
TASKS = frozenset(str(task.model_fields["kind"].default) for task in get_args(TaskKind))
"""The kinds of tasks."""
