"""The heads of terms: layers between the states of a network and scores, as weights and products.

``nn/heads.py`` has a module for each; ``rows`` are the states that a head reads, of all
``examples`` together.
"""

from dataclasses import dataclass

from bertc.ir.base import Axis, Kept, Matmul, Weight, affine, bias, matrix, unstated
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation


@dataclass(frozen=True)
class VocabularyHead:
    """Scores of every token, by the kind of head that the encoder has (``ir/network/head.py``)."""

    def weights(self, name: str, encoder: Encoder) -> tuple[Weight, ...]:
        """As the encoder's head states them; the tied table is left out."""
        return encoder.head_weights(name)

    def matmuls(self, encoder: Encoder, rows: int, examples: int) -> tuple[Matmul, ...]:
        """The head over ``rows`` states."""
        return encoder.head_matmuls(rows)

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """So many states through the head."""
        return encoder.head_kept(rows)


@dataclass(frozen=True)
class Classifier:
    """One linear map (hidden -> labels)."""

    labels: int

    def weights(self, name: str, encoder: Encoder) -> tuple[Weight, ...]:
        """A matrix and a bias."""
        hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
        return affine(name, ("labels", self.labels), hidden, encoder.initializer, "head")

    def matmuls(self, encoder: Encoder, rows: int, examples: int) -> tuple[Matmul, ...]:
        """One product."""
        return (Matmul("head", rows, encoder.hidden, self.labels),)

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """The states and their log-probabilities."""
        return Kept(values=encoder.hidden, fp32=self.labels).times(rows)


@dataclass(frozen=True)
class BoundaryHead:
    """Scores of tokens from two states and a place between them (SpanBERT 3.2)."""

    max_targets: int
    position_dim: int

    def weights(self, name: str, encoder: Encoder) -> tuple[Weight, ...]:
        """A position table, two dense + norm layers, and a bias; the output table is tied."""
        init, embedding = encoder.initializer, encoder.embedding
        hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
        feature: tuple[Axis, int] = ("feature", 2 * encoder.hidden + self.position_dim)
        out: tuple[Axis, int] = ("embedding", embedding)
        norm = encoder.norm.head_function
        shape = (self.max_targets, self.position_dim)
        axes: tuple[Axis, Axis] = ("positions", "feature")
        return (
            Weight(f"{name}.position.weight", shape, axes, init, "head", "table"),
            *affine(f"{name}.first", hidden, feature, init, "head"),
            *norm.weights(f"{name}.first_norm", *hidden, part="head"),
            *affine(f"{name}.second", out, hidden, init, "head"),
            *norm.weights(f"{name}.second_norm", *out, part="head"),
            bias(name, ("vocab", encoder.vocab_size), "head"),
        )

    def matmuls(self, encoder: Encoder, rows: int, examples: int) -> tuple[Matmul, ...]:
        """Two dense layers and the vocabulary projection over ``rows`` predictions."""
        hidden = encoder.hidden
        return (
            Matmul("head", rows, 2 * hidden + self.position_dim, hidden),
            Matmul("head", rows, hidden, encoder.embedding),
            Matmul("head", rows, encoder.embedding, encoder.vocab_size),
        )

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """The boundary vectors through two dense layers, their scores, and a sum a row."""
        features = 2 * encoder.hidden + self.position_dim
        width = features + 3 * encoder.hidden + 3 * encoder.embedding + encoder.vocab_size
        return Kept(values=rows * width, fp32=rows)


@dataclass(frozen=True)
class DetectorHead:
    """A dense layer and one score (ELECTRA run_pretraining.py _get_discriminator_output)."""

    def weights(self, name: str, encoder: Encoder) -> tuple[Weight, ...]:
        """Two matrices, each with a bias."""
        hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
        return (
            *affine(f"{name}.dense", hidden, hidden, encoder.initializer, "head"),
            *affine(name, ("labels", 1), hidden, unstated(encoder.initializer), "head"),
        )

    def matmuls(self, encoder: Encoder, rows: int, examples: int) -> tuple[Matmul, ...]:
        """Two products."""
        return (
            Matmul("head", rows, encoder.hidden, encoder.hidden),
            Matmul("head", rows, encoder.hidden, 1),
        )

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """The dense layer before and after its activation, and of a score its loss's parts."""
        return Kept(values=rows * (2 * encoder.hidden + 1), fp32=3 * rows)


@dataclass(frozen=True)
class ConditionedSpanHead:
    """Ends scored for given beginnings, and perhaps whether there is an answer (``Conditioned``).

    ``units`` is 0 where they are as many as the encoder has.
    """

    units: int
    activation: Activation
    normed: bool
    answered: bool

    def inner(self, encoder: Encoder) -> int:
        """The units between the states and a score."""
        return self.units or encoder.hidden

    def weights(self, name: str, encoder: Encoder) -> tuple[Weight, ...]:
        """A map for beginnings, two layers for ends, two for whether there is an answer."""
        hidden: tuple[Axis, int] = ("hidden", encoder.hidden)
        inner: tuple[Axis, int] = ("feature" if self.units else "hidden", self.inner(encoder))
        both: tuple[Axis, int] = ("feature", 2 * encoder.hidden)
        one: tuple[Axis, int] = ("labels", 1)
        init = encoder.initializer
        dense = affine(f"{name}.answered.dense", inner, both, init, "head")
        answered = matrix(f"{name}.answered", one, inner, init, "head")
        norm = encoder.norm.head_function
        return (
            *affine(f"{name}.start", one, hidden, init, "head"),
            *affine(f"{name}.end.dense", inner, both, init, "head"),
            *(norm.weights(f"{name}.end.norm", *inner, part="head") if self.normed else ()),
            *affine(f"{name}.end", one, inner, init, "head"),
            *((*dense, answered) if self.answered else ()),
        )

    def matmuls(self, encoder: Encoder, rows: int, examples: int) -> tuple[Matmul, ...]:
        """One beginning an example; whether there is an answer is scored once an example."""
        hidden, width = encoder.hidden, self.inner(encoder)
        answered = (
            Matmul("head", examples, 2 * hidden, width),
            Matmul("head", examples, width, 1),
        )
        return (
            Matmul("head", rows, hidden, 1),
            Matmul("head", rows, 2 * hidden, width),
            Matmul("head", rows, width, 1),
            *(answered if self.answered else ()),
        )

    def kept(self, encoder: Encoder, rows: int) -> Kept:
        """States, the units of all of them and of one answer, scores in fp32."""
        hidden, width = encoder.hidden, self.inner(encoder)
        inner = rows * (3 + self.normed) * width
        return Kept(values=rows * (hidden + 2) + inner + 3 * hidden + width, fp32=6 * rows)


HeadNode = VocabularyHead | Classifier | BoundaryHead | DetectorHead | ConditionedSpanHead
"""The closed union of heads."""
