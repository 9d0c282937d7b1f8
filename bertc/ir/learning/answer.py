"""Answers of a task, each ``width`` scores wide, the heads that predict them, and class weights.

Axes of the tensors meant: n examples, s tokens of a row, k scored positions of a row, h hidden.
"""

from operator import not_
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node, Off, Width
from bertc.ir.learning.pooling import Pooling, SparseVectors, TokenVectors
from bertc.ir.network.ffn import Activation
from bertc.ir.terms import heads, vector_heads
from bertc.ir.terms.task_head import NamedSpanHead


class _Named(Node):
    names: Annotated[tuple[str, ...], Field(min_length=2)]

    @property
    def width(self) -> int:
        return len(self.names)


class Labels(_Named):
    """One of several labels per example; scores (n, labels)."""

    kind: Literal["labels"] = "labels"


class Several(_Named):
    """Any number of labels per example, each by a sigmoid; scores (n, labels)."""

    kind: Literal["several"] = "several"


class Score(Node):
    """A number per example, or one for each of ``names``; scores (n, numbers).

    ``logistic``: it is how likely a pair belongs together, as a logit.
    """

    kind: Literal["score"] = "score"
    names: Annotated[tuple[str, ...], Field(exclude_if=not_)] = ()
    logistic: Off = False

    @property
    def width(self) -> int:
        return max(1, len(self.names))


MOST_CHOICES = 64


class Choice(Node):
    """One of up to ``most`` texts, each read with the same question; one score per text."""

    kind: Literal["choice"] = "choice"
    most: Annotated[int, Field(ge=2, le=MOST_CHOICES)]
    width: ClassVar[int] = 1


class Tags(_Named):
    """A tag per word, predicted from its first token (BERT 5.3)."""

    kind: Literal["tags"] = "tags"


class NamedSpans(Node):
    """Spans of up to ``widest`` words by names in front of their row; scores (n, w, names, widest).

    Words and names have vectors of ``units`` numbers. ``names`` are those that were learned.
    """

    kind: Literal["named-spans"] = "named-spans"
    names: tuple[str, ...]
    widest: int
    units: int
    width: ClassVar[int] = 1


class Plain(Node):
    """Independent start and end scores per token (BERT run_squad.py)."""

    kind: Literal["plain"] = "plain"


class Conditioned(Node):
    """End scores given a start, and an answerability score (XLNet run_squad.py).

    There is an end score for each of the likeliest starts, and the answerability score reads the
    first token and the start (ALBERT run_squad_v2.py too).

    Both have an inner layer of ``width`` units, 0: the hidden width. ``units``: ``tanh-norm``, with
    a norm in the end scores, or ``gelu-tanh`` without (ELECTRA qa_tasks.py, which has 512).
    """

    kind: Literal["conditioned"] = "conditioned"
    width: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    units: Literal["tanh-norm", "gelu-tanh"] = "tanh-norm"
    positional = ("width", "units")

    @property
    def activation(self) -> Activation:
        return "tanh" if self.normed else "gelu-tanh"

    @property
    def normed(self) -> bool:
        return self.units == "tanh-norm"


SpanHead = Annotated[Plain | Conditioned, BY_KIND]
"""The closed union of heads that find spans."""


class Span(Node):
    """Start and end of the answer to a question in a passage.

    ``unanswerable``: some questions have no answer; a plain head then predicts the first token.
    """

    kind: Literal["span"] = "span"
    head: SpanHead = Plain()
    unanswerable: bool = False
    width: ClassVar[int] = 2


class Vector(Node):
    """A vector for each of the ``texts`` of an example, or for each of their tokens.

    ``mlp``: in training a dense layer with tanh follows; ``scored``: a pair has a score. ``dense``:
    widths of linear maps that follow, in use too.
    """

    kind: Literal["vector"] = "vector"
    texts: Annotated[int, Field(ge=2, le=MOST_CHOICES + 1)] = 2
    pooling: Pooling = "mean"
    mlp: bool = False
    scored: bool = False
    dense: Annotated[tuple[Width, ...], Field(exclude_if=not_)] = ()
    width: ClassVar[int] = 1

    @property
    def of_states(self) -> bool:
        """True if its head reads the states of all tokens."""
        return isinstance(self.pooling, TokenVectors | SparseVectors)

    @property
    def by_token(self) -> TokenVectors | None:
        """The vectors of tokens, if texts have several."""
        return self.pooling if isinstance(self.pooling, TokenVectors) else None


Answer = Annotated[Labels | Several | Score | Choice | Tags | NamedSpans | Span | Vector, BY_KIND]
"""The closed union of kinds of answers."""
OfRow = Labels | Several | Score | Choice
"""Answers for which one state represents a whole row."""


Metric = Literal[
    "accuracy", "f1", "micro_f1", "macro_f1", "mcc", "pearson", "spearman", "span_f1", "em",
    "squad_f1", "ndcg@10", "mrr@10", "recall@100", "map",
]  # fmt: skip
"""Metrics of answers."""


def alike(a: Answer, b: Answer) -> bool:
    """True if a head trained for one answer can be used for the other."""
    if isinstance(a, Span) and isinstance(b, Span):
        return a.head == b.head  # the rest follows from the weights
    if isinstance(a, NamedSpans) and isinstance(b, NamedSpans):
        return (a.widest, a.units) == (b.widest, b.units)  # any name may be read
    if isinstance(a, Vector) and isinstance(b, Vector):
        widths = {a.by_token and a.by_token.width, b.by_token and b.by_token.width}
        return (a.mlp, a.dense) == (b.mlp, b.dense) and len(widths) == 1
    of_size = a.kind == b.kind and a.width == b.width
    return of_size and label_names(a) == label_names(b)


def label_names(answer: Answer) -> tuple[str, ...]:
    """Labels or tags in the order of their scores; empty for other answers."""
    return answer.names if isinstance(answer, Labels | Several | Tags | NamedSpans) else ()


def answer_head(answer: Answer) -> heads.HeadNode:
    """One linear layer (hidden -> scores), the layers of a conditioned span, or of vectors."""
    match answer:
        case Vector(pooling=TokenVectors(width=width, query=query)):
            return vector_heads.TokenVectorHead(width, query, answer.texts, answer.scored)
        case Vector(pooling=SparseVectors()):
            return vector_heads.SparseHead(answer.texts, answer.scored)
        case Vector():
            return vector_heads.VectorHead(answer.mlp, answer.scored, answer.dense)
        case NamedSpans(widest=widest, units=units):
            return NamedSpanHead(units, widest)
        case Span(head=Conditioned() as head, unanswerable=answered):
            return heads.ConditionedSpanHead(head.width, head.activation, head.normed, answered)
        case _:
            return heads.Classifier(answer.width, pooled=isinstance(answer, OfRow))


def answer_rows(answer: Answer, texts: int, seq: int) -> int:
    """States per example that its head reads: up to ``texts`` texts, rows of ``seq`` tokens."""
    match answer:
        case Labels() | Several() | Score():
            return 1
        case Choice():
            return texts
        case Vector() as vector:
            return texts * (seq if vector.of_states else 1)
        case Tags() | NamedSpans() | Span():
            return seq


def rows_an_example(answer: Answer) -> int:
    """Rows of an example: one for each choice or text, else 1."""
    match answer:
        case Choice(most=most):
            return most
        case Vector(texts=texts):
            return texts
        case _:
            return 1


def names_spans(tags: tuple[str, ...]) -> bool:
    """True if tags mark spans by their first and later words, as ``B-PER`` and ``I-PER`` do."""
    return any(tag.startswith("B-") for tag in tags)


ClassWeights = tuple[Annotated[float, Field(gt=0, le=1e6)], ...]


class _ClassLoss(Node):
    """The cross entropy of classes; of several labels at once that of each.

    ``smoothing`` is the part of each target that all classes share (Szegedy et al. 2016, section
    7), of several labels what they are moved towards 1/2. ``weights`` are of classes in the order
    of their names: the loss is the mean by weight (torch CrossEntropyLoss). For several labels at
    once they weigh the examples that have a label (BCEWithLogitsLoss, pos_weight).
    """

    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weights: ClassWeights = ()
    positional: ClassVar[tuple[str, ...]] = ("smoothing",)
    looked_up: ClassVar[tuple[str, ...]] = ("weights",)

    @property
    def power(self) -> float:
        """The power of 1 - p that its terms are multiplied by."""
        return 0.0


class PlainLoss(_ClassLoss):
    """Cross entropy in which all classes weigh the same."""

    kind: Literal["plain"] = "plain"


class BalancedLoss(_ClassLoss):
    """Weights by the training file: examples / (classes x examples of the class).

    Of several labels at once: examples without the label / examples with it.
    """

    kind: Literal["balanced"] = "balanced"


class WeightedLoss(_ClassLoss):
    """Weights as written."""

    kind: Literal["weights"] = "weights"
    weights: Annotated[ClassWeights, Field(min_length=1)]
    positional = ("weights", "smoothing")
    looked_up = ()


class FocalLoss(_ClassLoss):
    """Cross entropy times (1 - p)^gamma, p being the probability of the target."""

    kind: Literal["focal"] = "focal"
    gamma: Annotated[float, Field(ge=0, le=100)] = 2.0  # Lin et al. 2017, section 4.1
    positional = ("gamma", "smoothing")

    @property
    def power(self) -> float:
        return self.gamma


ClassLoss = Annotated[PlainLoss | BalancedLoss | WeightedLoss | FocalLoss, BY_KIND]
"""The closed union of losses of classes."""
PLAIN_LOSS = PlainLoss()
