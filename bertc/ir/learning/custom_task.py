"""Tasks on a user's own files, with named columns."""

from operator import not_
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Count, Probability
from bertc.ir.data import Hf
from bertc.ir.learning.answer import (
    MOST_CHOICES,
    Answer,
    Choice,
    Labels,
    Pooling,
    Score,
    Span,
    Vector,
)
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
    Task,
    Xnli,
)
from bertc.ir.network.body import Body
from bertc.ir.terms.node import RowShape

Rows = str | Hf
"""A .tsv, .csv, .jsonl or .parquet file, also .gz, or a split of a data set."""


class _Own(Task):
    """A task on a user's own files; columns are named, or numbered from 0 without a header.

    Each file may be missing: the training data of an imported head is unknown.
    """

    name: Name
    train: Rows = ""
    dev: Rows = ""
    test: Rows = ""
    positional = ("train", "dev", "test")

    @property
    def title(self) -> str:
        return self.name


class _OfTexts(_Own, Headed):
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


class Choose(_Own, Choosing):
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


class Tag(_Own, OfWords):
    """A tag per word, from columns with lists, or with text separated by white space.

    Files of a word a line are read too, CoNLL-2003's and CoNLL-U; ``tags`` may name a column.
    """

    kind: Literal["tag"] = "tag"
    name: Name = "tag"
    words: str = "words"
    tags: str = "tags"


class Read(_Own, Reading):
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


class Embed(_Own):
    """A vector for each text, of texts alike near each other.

    ``positive`` names the column of a text that is like ``text``; the other texts of the batch are
    its negatives, and that of ``negative``. The loss is their cross entropy (InfoNCE) of cosines
    over ``temperature``; with ``both`` the mean with that of the positives among the texts. Without
    ``positive`` a text is read twice with other dropout (SimCSE); so are the lines of a .txt file.
    ``score`` is a number, higher for pairs more alike, of which the order is learned (CoSENT).

    ``sts`` is a file of STS-B in GLUE's columns, which takes the place of ``dev``. ``mlp``: in
    training a dense layer with tanh follows the pooled states (SimCSE, --mlp_only_train).

    ``prompt`` precedes each text, and a text has at most ``longest`` tokens, 0: as many as a row.
    ``normalise``: its vectors have length 1. An ``init`` with ways of its own gives these three and
    ``pooling``, where they are not written.
    """

    kind: Literal["embed"] = "embed"
    name: Name = "embed"
    text: str = "text"
    positive: str = ""
    negative: str = ""
    score: str = ""
    sts: str = ""
    pooling: Pooling = "mean"
    normalise: Annotated[bool, Field(exclude_if=not_)] = False
    prompt: Annotated[str, Field(exclude_if=not_)] = ""
    longest: Annotated[Count, Field(exclude_if=not_)] = 0
    mlp: bool = False
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.05  # SimCSE --temp; 1 / 20 in SBERT's
    both: bool = False
    dropout: Probability = 0.0
    compares_examples = True

    @model_validator(mode="after")
    def _columns(self) -> Self:
        other = next((name for name in ("negative", "score") if getattr(self, name)), "")
        if other and not self.positive:
            raise ValueError(f"{other} needs positive, the other text of a pair", "positive=...")
        if self.negative and self.score:
            raise ValueError("pairs with a score have no negatives")
        if self.sts and self.dev:
            raise ValueError("sts takes the place of dev")
        return self

    @property
    def answer(self) -> Vector:
        texts = 3 if self.negative else 2
        scored = bool(self.score)
        return Vector(texts=texts, pooling=self.pooling, mlp=self.mlp, scored=scored)

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "positive")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Correlations of cosines with scores, else how often the positive is the most alike."""
        return ("spearman", "pearson") if self.score or self.sts else ("accuracy",)

    def outputs(self, rows: RowShape) -> int | None:
        return 1 if self.pooling == "cls" else None

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        states = examples * rows.choices * rows.seq * encoder.hidden
        pooled = () if self.pooling == "cls" else (op.Pointwise("add", states),)
        return (*pooled, *super().operations(encoder, rows, examples))


TaskKind = Glue | Xnli | Squad | Race | Tagging | Classify | Regress | Choose | Tag | Read | Embed
"""The closed union of tasks."""
AnyTask = Annotated[TaskKind, BY_KIND]
TASKS = frozenset(str(task.model_fields["kind"].default) for task in get_args(TaskKind))
"""The kinds of tasks."""
