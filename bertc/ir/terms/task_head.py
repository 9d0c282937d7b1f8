"""Heads of tasks: layers between the states of a network and scores, of spans by names too.

``model/bilstm.py`` has the module.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, ONES, ZEROS, Axis, Dim, Glorot, Node, Weight, Width, affine
from bertc.ir.network.bilstm import DIRECTIONS, layer_operations, layer_weights
from bertc.ir.network.body import Body

Joins = Literal["one", "sum", "concat", "weighted-sum"]
"""States as they are, summed, side by side, or summed by learned weights."""
Count = Annotated[int, Field(ge=1, le=1000)] | Literal["all"]


class LayersRead(Node):
    """Some layers of a network; ``joins`` says how several become one.

    ``reads_last``: the last one is among them.
    """

    joins: ClassVar[Joins] = "one"
    reads_last: ClassVar[bool] = True

    @abstractmethod
    def layers(self, depth: int) -> tuple[int, ...]:
        """The layers, lowest first."""

    @property
    def least(self) -> int:
        """Fewest layers that a network needs for it."""
        return 1


class Last(LayersRead):
    """The last layer."""

    kind: Literal["last"] = "last"

    def layers(self, depth: int) -> tuple[int, ...]:
        return (depth,)


class SecondToLast(LayersRead):
    """The layer below the last."""

    kind: Literal["second-to-last"] = "second-to-last"
    reads_last = False

    @property
    def least(self) -> int:
        return 2

    def layers(self, depth: int) -> tuple[int, ...]:
        return (depth - 1,)


class EmbeddingsAlone(LayersRead):
    """The input of the first layer."""

    kind: Literal["embeddings"] = "embeddings"
    reads_last = False

    def layers(self, depth: int) -> tuple[int, ...]:
        return (0,)


class _Several(LayersRead):
    """The ``last`` layers, ``all``: every one, without the embeddings."""

    last: Count = 4
    positional = ("last",)

    @property
    def least(self) -> int:
        return 1 if self.last == "all" else self.last

    def layers(self, depth: int) -> tuple[int, ...]:
        return tuple(range(1 if self.last == "all" else depth - self.last + 1, depth + 1))


class LayerSum(_Several):
    """The sum of the ``last`` layers' states; ``all``: of every layer, without the embeddings."""

    kind: Literal["sum"] = "sum"
    joins = "sum"


class WeightedSum(_Several):
    """A sum by learned weights: a softmax over layers, times a learned factor (ELMo, 3.2).

    Peters et al. 2018, eq. 1. BERT's table says "weighted sum" and not by which weights.
    """

    kind: Literal["weighted-sum"] = "weighted-sum"
    joins = "weighted-sum"


class Concat(_Several):
    """The states of the ``last`` layers side by side, the lowest first."""

    kind: Literal["concat"] = "concat"
    joins = "concat"


Features = Annotated[
    Last | SecondToLast | EmbeddingsAlone | LayerSum | WeightedSum | Concat, BY_KIND
]
"""The closed union of choices of layers."""
LAST = Last()


class LinearHead(Node):
    """One linear layer from states to scores."""

    kind: Literal["linear"] = "linear"


class BiLstmHead(Node):
    """A BiLSTM over all tokens of an example, then a linear layer.

    ``hidden`` is the width of each direction; a layer reads both directions of the one below. BERT
    has two of 768 above frozen features (5.3), and above a left-to-right network (5.1).
    """

    kind: Literal["bilstm"] = "bilstm"
    hidden: Width = 768
    layers: Annotated[int, Field(ge=1, le=100)] = 2
    positional = ("hidden", "layers")

    @property
    def width(self) -> int:
        return len(DIRECTIONS) * self.hidden

    def inner(self, layer: int, features: int) -> int:
        """Width of the inputs of a layer, of which the lowest reads ``features``."""
        return self.width if layer else features


TaskHead = Annotated[LinearHead | BiLstmHead, BY_KIND]
"""The closed union of heads that tasks choose from, besides those of spans."""
LINEAR = LinearHead()


@dataclass(frozen=True)
class StatesHead:
    """Scores from ``parts`` states of a token: joined, read by a BiLSTM if there is one, scored."""

    labels: int
    parts: int
    joins: Joins
    recurrent: BiLstmHead | None

    def input_width(self, encoder: Body) -> int:
        return encoder.hidden * (self.parts if self.joins == "concat" else 1)

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        width, weights = self.input_width(encoder), list[Weight]()
        if self.joins == "weighted-sum":
            for leaf, count, init in (("weight", self.parts, ZEROS), ("scale", 1, ONES)):
                axes: tuple[Axis, ...] = ("feature",)
                weights.append(Weight(f"{name}.mix.{leaf}", (count,), axes, init, "head", "bias"))
        if recurrent := self.recurrent:
            for layer in range(recurrent.layers):
                inner = recurrent.inner(layer, width)
                leaf = f"{name}.recurrence.{layer}"
                weights += layer_weights(leaf, inner, recurrent.hidden, "head")
            width = recurrent.width
        hidden: Dim = ("hidden", width)
        scores = affine(name, ("labels", self.labels), hidden, encoder.initializer, "head")
        return (*weights, *scores)

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        scores, recurrent = rows * self.labels, self.recurrent
        width = recurrent.width if recurrent else self.input_width(encoder)
        return (op.Product(rows, width, self.labels), op.Loss(scores, kept=scores))

    def before(self, encoder: Body, states: int) -> op.Operations:
        numbers = states * encoder.hidden * self.parts
        match self.joins:
            case "weighted-sum":
                return (op.Pointwise("multiply", numbers, kept=numbers),)
            case "concat":
                return (op.Copy(numbers),)
            case _:
                return ()

    def recurrence(self, encoder: Body, rows: int, steps: int) -> op.Operations:
        if self.recurrent is None:
            return ()
        width = self.input_width(encoder)
        return tuple(
            operation
            for layer in range(self.recurrent.layers)
            for operation in layer_operations(
                rows, steps, self.recurrent.inner(layer, width), self.recurrent.hidden
            )
        )


EXPANSION = 4
"""Width of the inner layer of a map over that of its output (gliner layers.py)."""
MOST_NAMES = 25
"""Names in front of a training row (gliner config.py, max_types)."""


@dataclass(frozen=True)
class NamedSpanHead:
    """A BiLSTM over words, then a map of two layers for beginnings, ends, spans and names.

    Zaratiana et al. 2024, "GLiNER", 2.2; gliner span_rep.py, SpanMarkerV0.

    Vectors have ``units`` numbers, to which states of another width are mapped first.
    """

    units: int
    widest: int

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        units: Dim = ("hidden", self.units)
        inner: Dim = ("feature", EXPANSION * self.units)
        both: Dim = ("hidden", 2 * self.units)
        maps = [("start", units), ("end", units), ("span", both), ("names", units)]
        pairs = [
            affine(f"{name}.{part}.{leaf}", to, read, Glorot(), "head")
            for part, of in maps
            for leaf, to, read in (("inner", inner, of), ("outer", units, inner))
        ]
        if (width := encoder.hidden) != self.units:
            pairs.append(affine(f"{name}.narrow", units, ("hidden", width), Glorot(), "head"))
        half = self.units // len(DIRECTIONS)
        recurrence = layer_weights(f"{name}.recurrence", self.units, half, "head")
        return (*recurrence, *(weight for pair in pairs for weight in pair))

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        """Operations on rows of words; the second layer of spans is applied to names instead."""
        units, inner, spans = self.units, EXPANSION * self.units, rows * self.widest
        names, scores = examples * MOST_NAMES, spans * MOST_NAMES
        return (
            *((op.Product(rows, encoder.hidden, units),) if encoder.hidden != units else ()),
            *layer_operations(examples, rows // examples, units, units // len(DIRECTIONS)),
            *self._map(rows), *self._map(rows), *self._map(names), op.Product(names, units, inner),
            op.Product(rows, units, inner), op.Product(rows, units, inner),
            op.Pointwise("relu", spans * inner, kept=spans * inner), op.Dropout(spans, inner),
            op.Product(spans, inner, MOST_NAMES, maps=0), op.Loss(scores, kept=4 * scores),
        )  # fmt: skip

    def _map(self, rows: int) -> op.Operations:
        inner = EXPANSION * self.units
        relu = op.Pointwise("relu", rows * inner, kept=rows * inner), op.Dropout(rows, inner)
        return (op.Product(rows, self.units, inner), *relu, op.Product(rows, inner, self.units))
