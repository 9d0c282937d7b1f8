"""Tasks on a user's own files, with named columns."""

from operator import not_
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field

from bertc.ir.base import BY_KIND, Count, Node, Off
from bertc.ir.learning import answer as answers, task as tasks
from bertc.ir.learning.vector_task import Embed, Rerank
from bertc.ir.terms.task_head import MOST_NAMES

Columns = Annotated[tuple[str, ...], Field(min_length=2), AfterValidator(tasks.check_labels)]


class Many(Node):
    """Any number of labels an example, in a list or in text parted by ``separator``.

    ``names`` are those of the training file, unless they are written.
    """

    kind: Literal["many"] = "many"
    names: tasks.Names = ()
    separator: Annotated[str, Field(min_length=1, max_length=10)] = ","
    positional = ("names", "separator")


class _OfTexts(tasks.OwnTask, tasks.Headed):
    text: str = "text"
    pair: str = ""
    label: str | Columns = "label"
    stride: Annotated[Count, Field(exclude_if=not_)] = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the label or labels."""
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "pair") if self.pair else ("text",)


class Classify(_OfTexts, tasks.Weighted):
    """One of several labels for a text, or for two texts, or any number of them.

    ``stride``: long texts are read in windows that begin every so many tokens, 0: cut. Several
    labels are in one column (``labels=many``), or each in its own as 0 or 1 (``label=[a, b]``).
    """

    kind: Literal["classify"] = "classify"
    name: tasks.Name = "classify"
    labels: tasks.Names | Many = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, empty if they are unknown."""
        if isinstance(self.label, tuple):
            return self.label
        return self.labels.names if isinstance(self.labels, Many) else self.labels

    @property
    def answer(self) -> answers.Answer:
        several = isinstance(self.label, tuple) or isinstance(self.labels, Many)
        names = self.names or tasks.UNKNOWN
        return answers.Several(names=names) if several else answers.Labels(names=names)

    @property
    def metrics(self) -> tuple[answers.Metric, ...]:
        """Metrics by number of labels; F1 is of the second of two labels."""
        two = isinstance(self.answer, answers.Labels) and len(self.names) == 2
        return ("accuracy", "f1") if two else super().metrics


class Regress(_OfTexts):
    """A number for a text, or for two texts, or one for each of the columns in ``label``."""

    kind: Literal["regress"] = "regress"
    name: tasks.Name = "regress"

    @property
    def answer(self) -> answers.Answer:
        return answers.Score(names=() if isinstance(self.label, str) else self.label)


class Choose(tasks.OwnTask, tasks.Choosing):
    """The right one of several texts, after a question and optionally a passage.

    ``choices`` names their columns, or one column with a list of them; ``label`` is the index of
    the right one from 0, or its letter. Without a passage the question takes its place.
    """

    kind: Literal["choose"] = "choose"
    name: tasks.Name = "choose"
    passage: str = ""
    text: str = "question"
    choices: Annotated[tuple[str, ...], Field(min_length=1, max_length=answers.MOST_CHOICES)] = (
        "choices",
    )
    label: str = "label"
    most: Annotated[int, Field(ge=2, le=answers.MOST_CHOICES)] = 4

    @property
    def answer(self) -> answers.Choice:
        return answers.Choice(most=len(self.choices) if len(self.choices) > 1 else self.most)

    @property
    def reads(self) -> tuple[str, ...]:
        return (*(("passage",) if self.passage else ()), "text", "choices")


class Tag(tasks.OwnTask, tasks.OfWords):
    """A tag per word, from columns with lists, or with text separated by white space.

    Files of a word a line are read too, CoNLL-2003's and CoNLL-U; ``tags`` may name a column. With
    ``letters`` each letter is a word, and has a letter as its tag: residues of a protein.
    """

    kind: Literal["tag"] = "tag"
    name: tasks.Name = "tag"
    words: str = "words"
    tags: str = "tags"
    letters: Off = False


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := [name for name in names if not name.strip() or names.count(name) > 1]:
        raise ValueError(f"the label {wrong[0]!r} is empty or named twice", "a name for each")
    return names


class Spans(tasks.OwnTask):
    """Spans of words by the names of what they are, also of names never seen (GLiNER).

    Words and tags are as in ``tag``, or tags are spans [first, last, name]. A row begins with
    names, each after ``marker``, and a ``separator``, by default those of ``init``, else the tokens
    of masks and of ends. In training these are the row's names among ``labels`` and up to
    ``negatives`` others, drawn anew in each step; elsewhere all names of a file.
    """

    kind: Literal["spans"] = "spans"
    name: tasks.Name = "spans"
    words: str = "words"
    tags: str = "tags"
    labels: Annotated[tuple[str, ...], AfterValidator(_check_names)] = ()
    negatives: Annotated[int, Field(ge=1, le=MOST_NAMES)] = 5
    widest: Annotated[int, Field(ge=1, le=100)] = 12  # gliner config.py, max_width
    units: Annotated[int, Field(ge=2, le=100_000, multiple_of=2)] = 512  # hidden_size
    marker: str = ""
    separator: str = ""

    @property
    def judged(self) -> Self:
        """The same, whose rows begin with all names."""
        return self.model_copy(update={"negatives": 0})

    @property
    def answer(self) -> answers.NamedSpans:
        names = self.labels or (tasks.UNKNOWN if self.train else ())
        return answers.NamedSpans(names=names, widest=self.widest, units=self.units)


class Read(tasks.OwnTask, tasks.Reading):
    """The span of a passage that answers a question; ``start`` is its character offset.

    A row with an empty answer is unanswerable, which ``unanswerable`` has to allow. Without a
    column ``start``, the answer column holds lists ``text`` and ``answer_start``, as in
    ``hf("squad")``.
    """

    kind: Literal["read"] = "read"
    name: tasks.Name = "read"
    passage: str = "context"
    text: str = "question"
    target: str = "answer"
    start: str = "start"
    unanswerable: bool = False

    @property
    def answer(self) -> answers.Answer:
        return answers.Span(head=self.head, unanswerable=self.unanswerable)


TaskKind = (
    tasks.Glue | tasks.Xnli | tasks.Squad | tasks.Race | tasks.Tagging
    | Classify | Regress | Choose | Tag | Spans | Read | Embed | Rerank
)  # fmt: skip
"""The closed union of tasks."""
AnyTask = Annotated[TaskKind, BY_KIND]
TASKS = frozenset(str(task.model_fields["kind"].default) for task in get_args(TaskKind))
"""The kinds of tasks."""
