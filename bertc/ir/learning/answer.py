"""What a task wants to know of an example, and the head that answers it.

Axes of the tensors meant: n examples, s tokens of a row, k of them asked about, h hidden.
"""

from typing import Annotated, Literal, assert_never

from pydantic import Field

from bertc.ir.base import ONCE_A_NAME, Node
from bertc.ir.network.ffn import Activation
from bertc.ir.terms.heads import Classifier, ConditionedSpanHead


class Labels(Node):
    """One of several labels for each example (n, labels)."""

    kind: Literal["labels"] = "labels"
    names: Annotated[tuple[str, ...], Field(min_length=2)]

    @property
    def width(self) -> int:
        """Scores of one example."""
        return len(self.names)


class Score(Node):
    """A number for each example (n, 1)."""

    kind: Literal["score"] = "score"

    @property
    def width(self) -> int:
        """Scores of one example."""
        return 1


MOST_CHOICES = 64


class Choice(Node):
    """One of up to ``most`` texts, each read with the same question: a score for each."""

    kind: Literal["choice"] = "choice"
    most: Annotated[int, Field(ge=2, le=MOST_CHOICES)]

    @property
    def width(self) -> int:
        """Scores of one text."""
        return 1


class Tags(Node):
    """A tag for each word, told from its first token (BERT 5.3)."""

    kind: Literal["tags"] = "tags"
    names: Annotated[tuple[str, ...], Field(min_length=2)]

    @property
    def width(self) -> int:
        """Scores of one word."""
        return len(self.names)


class Plain(Node):
    """A score of each token to begin an answer, and one to end it (BERT run_squad.py)."""

    kind: Literal["plain"] = "plain"


class Conditioned(Node):
    """The end is told for each of the likeliest beginnings, and whether there is an answer at all
    from the first token and the beginning (XLNet run_squad.py; ALBERT run_squad_v2.py).

    Both go through ``width`` units, 0: as many as the encoder has. They are ``tanh-norm``, with a
    norm where ends are told, or ``gelu-tanh`` without (ELECTRA qa_tasks.py, which has 512).
    """

    kind: Literal["conditioned"] = "conditioned"
    width: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    units: Literal["tanh-norm", "gelu-tanh"] = "tanh-norm"
    positional = ("width", "units")

    @property
    def activation(self) -> Activation:
        """That of its units."""
        return "tanh" if self.normed else "gelu-tanh"

    @property
    def normed(self) -> bool:
        """Whether a norm follows where ends are told."""
        return self.units == "tanh-norm"


SpanHead = Annotated[Plain | Conditioned, Field(discriminator="kind"), ONCE_A_NAME]
"""The closed union of heads that find spans."""


class Span(Node):
    """Where the answer to a question begins and ends in a passage.

    ``unanswerable``: some questions have none; a plain head then points at the first token.
    """

    kind: Literal["span"] = "span"
    head: SpanHead = Plain()
    unanswerable: bool = False

    @property
    def width(self) -> int:
        """Scores of one token."""
        return 2


Answer = Annotated[Labels | Score | Choice | Tags | Span, Field(discriminator="kind")]
"""The closed union of what a task may ask for."""


def alike(one: Answer, other: Answer) -> bool:
    """Whether a head that was trained for one says the same for the other."""
    if isinstance(one, Span) and isinstance(other, Span):
        return one.head == other.head  # the weights say the rest
    return one.kind == other.kind and told_names(one) == told_names(other)


def told_names(answer: Answer) -> tuple[str, ...]:
    """The labels or tags, in the order of their scores; none where others are told."""
    return answer.names if isinstance(answer, Labels | Tags) else ()


def answer_head(answer: Answer) -> Classifier | ConditionedSpanHead:
    """One linear map (hidden -> scores), or the maps of a conditioned span."""
    if isinstance(answer, Span) and isinstance(answer.head, Conditioned):
        head = answer.head
        return ConditionedSpanHead(
            head.width, head.activation, head.normed, answered=answer.unanswerable
        )
    return Classifier(answer.width)


def answer_rows(answer: Answer, texts: int, seq: int) -> int:
    """States of an example that its head reads: of up to ``texts`` texts in rows of ``seq``."""
    match answer:
        case Labels() | Score():
            return 1
        case Choice():
            return texts
        case Tags() | Span():
            return seq
        case _:
            assert_never(answer)


def names_spans(tags: tuple[str, ...]) -> bool:
    """True if tags say where spans begin and go on, as ``B-PER`` and ``I-PER`` do."""
    return any(tag.startswith("B-") for tag in tags)
