"""The head that scores spans of words against the vectors of names.

``model/named_spans.py`` has the module. Zaratiana et al. 2024, "GLiNER: Generalist Model for Named
Entity Recognition using Bidirectional Transformer", 2.2; gliner span_rep.py, SpanMarkerV0.
"""

from dataclasses import dataclass

from bertc.ir import operation as op
from bertc.ir.base import Dim, Glorot, Weight, affine
from bertc.ir.network.bilstm import DIRECTIONS, layer_operations, layer_weights
from bertc.ir.network.body import Body

EXPANSION = 4
"""Width of the inner layer of a map over that of its output (gliner layers.py)."""
MOST_NAMES = 25
"""Names in front of a training row (gliner config.py, max_types)."""


@dataclass(frozen=True)
class NamedSpanHead:
    """A BiLSTM over words, then a map of two layers for beginnings, ends, spans and names.

    Vectors have ``units`` numbers, to which states of another width are mapped first.
    """

    units: int
    widest: int

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        units: Dim = ("hidden", self.units)
        inner: Dim = ("feature", EXPANSION * self.units)
        maps = [
            ("start", units),
            ("end", units),
            ("span", ("hidden", 2 * self.units)),
            ("names", units),
        ]
        pairs = [
            pair
            for part, read in maps
            for pair in (
                affine(f"{name}.{part}.inner", inner, read, Glorot(), "head"),
                affine(f"{name}.{part}.outer", units, inner, Glorot(), "head"),
            )
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
