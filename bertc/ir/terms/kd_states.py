"""Distillation of states: of layers, of embeddings, of the first token (``kd``)."""

from typing import Literal

from bertc.ir import operation as op
from bertc.ir.network.body import Body
from bertc.ir.network.wanted import Wanted
from bertc.ir.terms.heads import Projections
from bertc.ir.terms.kd import OfLayers
from bertc.ir.terms.layer_map import LayerMap
from bertc.ir.terms.node import RowShape


class KdStates(OfLayers):
    """States of some layers beside those of the teacher's layers that they are mapped to.

    ``elements``: a vector's squared errors are averaged, as released, or summed. ``project``:
    states are first mapped to the teacher's width, by one map for all layers or by one for each;
    ``auto``: by one for all where widths differ.
    """

    kind: str
    loss: Literal["mse", "cosine"] = "mse"
    elements: Literal["mean", "sum"] = "mean"
    project: Literal["auto", "shared", "each"] = "auto"
    width: int = 0
    maps: int = 0
    looked_up = ("matched", "width", "maps")

    @property
    def head_node(self) -> Projections:
        """The maps to the width of the teacher; none where widths are alike."""
        return Projections(self.maps, self.width)

    def wanted(self, *, learned: bool) -> Wanted:
        return Wanted(states=self.layers_of(learned=learned), last=False)

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """A map and a difference for each pair of layers."""
        states, count = examples * self.head_rows(rows), len(self.matched)
        numbers = count * states * self.width
        if not self.maps:
            return (op.Loss(numbers, kept=numbers),)
        # States below the last ones are saved by the layer that reads them.
        last = sum(here == encoder.depth for here, _ in self.matched)
        products = (
            op.Product(states, encoder.hidden, self.width, count - last, keeps_rows=False),
            op.Product(states, encoder.hidden, self.width, last),
        )
        saved = 2 * numbers if self.loss == "cosine" else numbers
        return (*(product for product in products if product.times), op.Loss(numbers, kept=saved))


class _Tokens(KdStates):
    """States of all tokens, or of masked ones."""

    over: Literal["all", "masked"] = "all"

    @property
    def compares(self) -> Literal["all", "masked"]:
        return self.over


class KdHidden(_Tokens):
    """States of layers (TinyBERT 3.2; with ``cosine`` and ``layers=last`` DistilBERT 3)."""

    kind: Literal["kd(hidden)"] = "kd(hidden)"
    layers: LayerMap = "uniform"
    positional = ("layers",)


class KdEmbeddings(_Tokens):
    """Outputs of the embeddings (TinyBERT 3.2)."""

    kind: Literal["kd(embeddings)"] = "kd(embeddings)"
    positional = ("loss",)


class KdCls(KdStates):
    """States of the first token of each example (BERT-PKD 3.2).

    ``normalize``: both are first divided by their length (KD_loss.py --normalize_patience).
    """

    kind: Literal["kd(cls)"] = "kd(cls)"
    layers: LayerMap = "skip"
    normalize: bool = False
    across: Literal["sum", "mean"] = "mean"  # KD_loss.py: over all elements of all layers
    positional = ("layers",)

    @property
    def compares(self) -> Literal["first"]:
        return "first"

    def head_rows(self, rows: RowShape) -> int:
        return rows.examples
