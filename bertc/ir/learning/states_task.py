"""The states that the head of a task reads, and the cost of it."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Self

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Probability
from bertc.ir.learning import answer as answers
from bertc.ir.network.body import Body
from bertc.ir.network.body_node import Wanted
from bertc.ir.terms.heads import Classifier, HeadNode
from bertc.ir.terms.node import RowShape, StatesRead, TermNode
from bertc.ir.terms.task_head import LAST, BiLstmHead, Features, StatesHead


class StatesTask(TermNode):
    """A task as far as its head goes.

    ``dropout`` is applied to what the head reads. ``features`` are the layers that it reads, by the
    setting of that name, and ``layers`` these layers of the stage's network. ``compares_examples``:
    its loss holds the examples of a batch against each other.
    """

    compares_examples: ClassVar[bool] = False
    looked_up = ("features", "layers")
    dropout: Probability = 0.1  # BERT run_classifier.py create_model, keep_prob=0.9
    features: Annotated[Features, Field(exclude_if=LAST.__eq__)] = LAST
    layers: Annotated[tuple[int, ...], Field(exclude_if=lambda layers: not layers)] = ()

    def reading(self, features: Features, depth: int) -> Self:
        """The same where its head reads these layers of a network of that depth."""
        if features == LAST:
            return self
        layers = features.layers(depth)
        return self.model_copy(update={"features": features, "layers": layers})

    @property
    @abstractmethod
    def answer(self) -> answers.Answer:
        """The kind of answer."""

    @property
    def judged(self) -> Self:
        """The task in the form in which examples are answered."""
        return self

    @property
    def recurrent(self) -> BiLstmHead | None:
        """The BiLSTM that its head has, if any."""
        return None

    @property
    def head_node(self) -> HeadNode:
        head, joins = answers.answer_head(self.answer), self.features.joins
        if isinstance(head, Classifier) and (self.recurrent or joins in ("concat", "weighted-sum")):
            return StatesHead(head.labels, max(1, len(self.layers)), joins, self.recurrent)
        return head

    @property
    def pooled(self) -> bool:
        """True if one state represents a whole row."""
        return isinstance(self.answer, answers.OfRow)

    @property
    def reads_last_alone(self) -> bool:
        """True if last states are scored as they are, or through a pooler."""
        return self.features == LAST and self.recurrent is None

    @property
    def reads_all(self) -> bool:
        """True if its head reads the states of all tokens of a row."""
        return self.recurrent is not None or isinstance(self.answer, answers.Span)

    @property
    def states(self) -> StatesRead:
        """A state of a row, or of tokens; a pooler is applied to last states alone."""
        return StatesRead(
            self.head_name, pooled=self.pooled, through_pooler=self.reads_last_alone, by_token=True
        )

    def head_rows(self, rows: RowShape) -> int:
        return answers.answer_rows(self.answer, rows.choices, rows.seq)

    def outputs(self, rows: RowShape) -> int | None:
        """One last state per row if that represents it, none if others are read; None: all."""
        if not self.features.reads_last:
            return 0
        return 1 if self.pooled and not self.reads_all else None

    def wanted(self, *, learned: bool) -> Wanted:
        """The layers that it reads; of the last one no more than the states that it scores."""
        below = self.layers[:-1] if self.features.reads_last else self.layers
        return Wanted(states=below, last=self.features.reads_last)

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        scored = examples * self.head_rows(rows)
        steps = examples * rows.choices
        states = steps * rows.seq if self.recurrent else scored
        head, width = self.head_node, encoder.pooled.width if self.pooled else encoder.hidden
        summed = (len(self.layers) - 1) * states * encoder.hidden
        joined: op.Operations = ()
        if self.features.joins == "sum":
            joined = (op.Pointwise("add", summed),)
        read: op.Operations = ()
        if isinstance(head, StatesHead):
            joined, width = head.before(encoder, states), head.input_width(encoder)
            read = head.recurrence(encoder, steps, rows.seq)
        dropped = op.Dropout(states, width)
        return (*joined, dropped, *read, *super().operations(encoder, rows, examples))
