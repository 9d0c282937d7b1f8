"""What a task wants to know of an example, and the head that answers it.

Axes of the tensors meant: n examples, s tokens of a row, k of them asked about, h hidden.
"""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import ONCE_A_NAME, Axis, Kept, Matmul, Node, Weight, affine, matrix
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation


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

    def inner(self, hidden: int) -> int:
        """The units between the states and a score."""
        return self.width or hidden


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


def answer_weights(answer: Answer, name: str, encoder: Encoder) -> tuple[Weight, ...]:
    """The head: one linear map (hidden -> scores), or the maps of a conditioned span."""
    hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
    init = encoder.initializer
    head = answer.head if isinstance(answer, Span) else Plain()
    if isinstance(head, Plain):
        return affine(name, ("labels", answer.width), hidden, init, "head")
    width = head.inner(encoder.hidden)
    inner: tuple[Axis, int] = ("feature" if head.width else "hidden", width)
    both: tuple[Axis, int] = ("feature", 2 * encoder.hidden)
    one: tuple[Axis, int] = ("labels", 1)
    told = affine(f"{name}.answered.dense", inner, both, init, "head")
    said = matrix(f"{name}.answered", one, inner, init, "head")
    norm = encoder.norm.head_function
    return (
        *affine(f"{name}.start", one, hidden, init, "head"),
        *affine(f"{name}.end.dense", inner, both, init, "head"),
        *(norm.weights(f"{name}.end.norm", *inner, part="head") if head.normed else ()),
        *affine(f"{name}.end", one, inner, init, "head"),
        *((*told, said) if isinstance(answer, Span) and answer.unanswerable else ()),
    )


def answer_matmuls(
    answer: Answer, encoder: Encoder, examples: int, texts: int, seq: int
) -> tuple[Matmul, ...]:
    """The head over so many examples, each of up to ``texts`` texts, in rows of ``seq`` tokens."""
    hidden = encoder.hidden
    match answer:
        case Labels() | Score():
            return (Matmul("head", examples, hidden, answer.width),)
        case Choice():
            return (Matmul("head", examples * texts, hidden, 1),)
        case Tags():
            return (Matmul("head", examples * seq, hidden, answer.width),)
        case Span():
            if isinstance(answer.head, Plain):
                return (Matmul("head", examples * seq, hidden, answer.width),)
            width = answer.head.inner(hidden)
            told = (
                Matmul("head", examples, 2 * hidden, width),
                Matmul("head", examples, width, 1),
            )
            return (
                Matmul("head", examples * seq, hidden, 1),
                Matmul("head", examples * seq, 2 * hidden, width),
                Matmul("head", examples * seq, width, 1),
                *(told if answer.unanswerable else ()),
            )


def answer_kept(answer: Answer, encoder: Encoder, texts: int, seq: int) -> Kept:
    """What the head keeps of one example: the states it reads, their dropout, its scores."""
    hidden = encoder.hidden
    match answer:
        case Labels() | Score() | Choice():
            rows = texts if isinstance(answer, Choice) else 1
            return Kept(
                values=rows * (3 * hidden + answer.width), fp32=rows * answer.width,
                masks=rows * hidden,
            )  # fmt: skip
        case Tags() | Span():
            if isinstance(answer, Span) and isinstance(answer.head, Conditioned):
                width = answer.head.inner(hidden)
                inner = seq * (3 + answer.head.normed) * width
                return Kept(values=seq * (hidden + 2) + inner + 3 * hidden + width, fp32=6 * seq)
            return Kept(
                values=seq * (hidden + answer.width), fp32=seq * answer.width, masks=seq * hidden
            )
