"""Heads of terms: weights and operations between the states of a network and scores.

``model/heads.py`` has a module for each. ``rows`` is the number of states that a head reads, summed
over ``examples``.
"""

from dataclasses import dataclass

from bertc.ir import operation as op
from bertc.ir.base import Dim, Weight, affine, bias, default_init, matrix
from bertc.ir.network.body import Body
from bertc.ir.network.ffn import Activation
from bertc.ir.own import Own
from bertc.ir.terms.task_head import NamedSpanHead, StatesHead
from bertc.ir.terms.vector_heads import SparseHead, TokenVectorHead, VectorHead


@dataclass(frozen=True)
class VocabularyHead:
    """Scores over the vocabulary, by the encoder's kind of head (``ir/network/head.py``)."""

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        return encoder.token_head.weights(name)

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        return encoder.token_head.operations(rows)


@dataclass(frozen=True)
class CopyingHead:
    """Scores over the vocabulary, and one for copying the input token (ELECTRA 3.4)."""

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        hidden: Dim = ("hidden", encoder.hidden)
        copy = affine(f"{name}.copy", ("labels", 1), hidden, encoder.initializer, "head")
        return (*encoder.token_head.weights(name), *copy)

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        mixed = op.Product(rows, encoder.hidden, 1), op.Loss(rows, kept=3 * rows)
        return (*encoder.token_head.operations(rows), *mixed)


@dataclass(frozen=True)
class Classifier:
    """A linear layer on states, of causal rows without bias (GenericForSequenceClassification)."""

    labels: int
    pooled: bool = False

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        hidden: Dim = ("hidden", self._width(encoder))
        maps = affine(name, ("labels", self.labels), hidden, encoder.initializer, "head")
        return maps[:1] if self.pooled and encoder.causal else maps

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        scores, width = rows * self.labels, self._width(encoder)
        return (op.Product(rows, width, self.labels), op.Loss(scores, kept=scores))

    def _width(self, encoder: Body) -> int:
        return encoder.pooled.width if self.pooled else encoder.hidden


@dataclass(frozen=True)
class BoundaryHead:
    """Scores of tokens from two boundary states and a position between them (SpanBERT 3.2)."""

    max_targets: int
    position_dim: int

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        init, embedding = encoder.initializer, encoder.embedding
        hidden: Dim = ("hidden", encoder.hidden)
        feature: Dim = ("feature", 2 * encoder.hidden + self.position_dim)
        out: Dim = ("embedding", embedding)
        rows: Dim = ("positions", self.max_targets)
        norm, width = encoder.head_norm, self.position_dim
        return (
            matrix(f"{name}.position", rows, ("feature", width), init, "head", "table"),
            *affine(f"{name}.first", hidden, feature, init, "head"),
            *norm.weights(f"{name}.first_norm", *hidden, part="head"),
            *affine(f"{name}.second", out, hidden, init, "head"),
            *norm.weights(f"{name}.second_norm", *out, part="head"),
            bias(name, ("vocab", encoder.vocab_size), "head"),
        )

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        hidden, embedding = encoder.hidden, encoder.embedding
        return (
            op.Product(rows, 2 * hidden + self.position_dim, hidden),
            op.Pointwise("gelu", rows * hidden, kept=rows * hidden),
            op.Norm(rows, hidden),
            op.Product(rows, hidden, embedding),
            op.Pointwise("gelu", rows * embedding, kept=rows * embedding),
            op.Norm(rows, embedding),
            op.Product(rows, embedding, encoder.vocab_size),
            op.VocabularyLoss(rows, encoder.vocab_size),
        )


@dataclass(frozen=True)
class DetectorHead:
    """Dense layer and score per token (ELECTRA run_pretraining.py _get_discriminator_output).

    ``normed``: the first token's state is added to each before, and the sum normed (DeBERTa).
    """

    normed: bool = False

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        hidden: Dim = ("hidden", encoder.hidden)
        norm = encoder.head_norm.weights(f"{name}.norm", *hidden, part="head")
        return (
            *(norm if self.normed else ()),
            *affine(f"{name}.dense", hidden, hidden, encoder.initializer, "head"),
            *affine(name, ("labels", 1), hidden, default_init(encoder.initializer), "head"),
        )

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        hidden = encoder.hidden
        summed = op.Pointwise("add", rows * hidden), op.Norm(rows, hidden)
        return (
            *(summed if self.normed else ()),
            op.Product(rows, hidden, hidden, keeps_rows=self.normed),
            op.Pointwise("gelu", rows * hidden, kept=rows * hidden),
            op.Product(rows, hidden, 1),
            op.Loss(rows, kept=3 * rows),
        )


@dataclass(frozen=True)
class ConditionedSpanHead:
    """End scores given a start, and optionally answerability (see ``Conditioned``).

    ``units`` is the inner width, 0: the encoder's hidden width.
    """

    units: int
    activation: Activation
    normed: bool
    answered: bool

    def inner(self, encoder: Body) -> int:
        return self.units or encoder.hidden

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        hidden: Dim = ("hidden", encoder.hidden)
        inner: Dim = ("feature" if self.units else "hidden", self.inner(encoder))
        both: Dim = ("feature", 2 * encoder.hidden)
        label: Dim = ("labels", 1)
        init = encoder.initializer
        dense = affine(f"{name}.answered.dense", inner, both, init, "head")
        answered = matrix(f"{name}.answered", label, inner, init, "head")
        norm = encoder.head_norm
        return (
            *affine(f"{name}.start", label, hidden, init, "head"),
            *affine(f"{name}.end.dense", inner, both, init, "head"),
            *(norm.weights(f"{name}.end.norm", *inner, part="head") if self.normed else ()),
            *affine(f"{name}.end", label, inner, init, "head"),
            *((*dense, answered) if self.answered else ()),
        )

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        """Operations with one start per example, and one answerability score per example."""
        hidden, width = encoder.hidden, self.inner(encoder)
        answered = (
            op.Product(examples, 2 * hidden, width),
            op.Pointwise(self.activation, examples * width),
            op.Product(examples, width, 1),
        )
        return (
            op.Product(rows, hidden, 1),
            # States and start are projected separately, then added.
            op.Product(rows, 2 * hidden, width, keeps_rows=False),
            op.Pointwise(self.activation, rows * width, kept=2 * rows * width),
            *((op.Norm(rows, width),) if self.normed else ()),
            op.Product(rows, width, 1),
            *(answered if self.answered else ()),
            op.Loss(2 * rows, kept=6 * rows),
        )


@dataclass(frozen=True)
class Projections:
    """``count`` linear maps (hidden -> width) of states that are held against wider ones."""

    count: int
    width: int

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        hidden: Dim = ("hidden", encoder.hidden)
        out: Dim = ("feature", self.width)
        pairs = (
            affine(f"{name}.{number}", out, hidden, encoder.initializer, "head")
            for number in range(self.count)
        )
        return tuple(weight for pair in pairs for weight in pair)

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        return (op.Product(rows, encoder.hidden, self.width),) if self.count else ()


@dataclass(frozen=True)
class OwnHead:
    """A module of the user's own that makes a loss of each row."""

    part: Own

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        return tuple(self.part.own_weights(name, self._sizes(encoder), "head"))

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        return self.part.own_operations(self._sizes(encoder), examples, rows // examples)

    def _sizes(self, encoder: Body) -> dict[str, int]:
        return {"hidden": encoder.hidden, "vocab": encoder.vocab_size}


HeadNode = (
    VocabularyHead | CopyingHead | Classifier | StatesHead | BoundaryHead | DetectorHead
    | ConditionedSpanHead | NamedSpanHead | Projections | VectorHead | TokenVectorHead | SparseHead
    | OwnHead
)  # fmt: skip
"""The closed union of heads."""


def over_tokens(head: HeadNode) -> bool:
    """True if a head projects onto the token table."""
    return isinstance(head, VocabularyHead | CopyingHead | BoundaryHead | SparseHead)
