"""Distillation of layers (``kd``): states, attention maps, relations of queries and keys."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.blocks import TOKEN_PAIRS
from bertc.ir.network.body import Body
from bertc.ir.network.body_node import BodyNode, Wanted
from bertc.ir.terms.heads import Projections
from bertc.ir.terms.kd import LayerMap, OfLayers
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
        states, count = examples * self.head_rows(rows), len(self.matched)
        numbers = count * states * self.width
        if not self.maps:
            return (op.Loss(numbers, kept=numbers),)
        # States below the last ones are saved by the layer that reads them.
        last = sum(layer == encoder.depth for layer, _ in self.matched)
        products = (
            op.Product(states, encoder.hidden, self.width, count - last, keeps_rows=False),
            op.Product(states, encoder.hidden, self.width, last),
        )
        saved = 2 * numbers if self.loss == "cosine" else numbers
        return (*(product for product in products if product.times), op.Loss(numbers, kept=saved))


class _Tokens(KdStates):
    """States of all tokens, or of masked ones."""

    over: Literal["all", "masked"] = "all"


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


Related = Literal["attention", "queries", "keys", "values"]
"""The scaled products of a relation: of queries and keys, or of one of the three with itself."""


class KdRelated(OfLayers):
    """Scaled products between tokens, a row of them per token and head, beside the teacher's."""

    kind: str
    over: Literal["all", "masked"] = "all"
    attends = True

    @property
    @abstractmethod
    def related(self) -> tuple[Related, ...]:
        """Its relations."""

    @property
    def held(self) -> float:
        """Numbers in fp32 for each score compared: both probabilities and their logarithms."""
        return 7

    @abstractmethod
    def split(self, body: BodyNode, layer: int) -> int:
        """Number of heads by which the vectors of a layer, counted from 1, are compared."""

    @property
    def head_node(self) -> Projections:
        return Projections(0, 0)

    def wanted(self, *, learned: bool) -> Wanted:
        return Wanted(projections=self.layers_of(learned=learned), last=False)

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """Products of some rows at a time, turned into the gradients of their factors."""
        operations: list[op.Operation] = []
        for layer, _ in self.matched:
            product = self._product(encoder, layer, rows, examples)
            scores = product.rows * product.columns * product.times
            factors = (product.rows + product.columns) * product.inner * product.times
            row = scores // (examples * rows.choices)
            # Beside scores, queries of both networks are scaled, as if both were as wide.
            numbers = self.held + 2 * product.inner / product.columns
            loss = op.LossInBlocks(scores, row, TOKEN_PAIRS, numbers, factors)
            operations += len(self.related) * (product, loss)
        return tuple(operations)

    def taught_operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        products = (self._product(encoder, layer, rows, examples) for _, layer in self.matched)
        return tuple(product for product in products for _ in self.related)

    def _product(self, body: Body, layer: int, rows: RowShape, examples: int) -> op.Product:
        widths, heads, queries = _widths(body, layer), self.split(body, layer), rows.seq
        if self.over == "masked":
            queries = rows.predictions
        times = examples * rows.choices * heads
        return op.Product(queries, widths.inner // heads, rows.seq, times, maps=0, keeps_rows=False)


class KdAttention(KdRelated):
    """Attention of each head: scores before the softmax, or probabilities (TinyBERT 3.2).

    ``mse`` is averaged over the keys of a query and over heads. Scores of ``zero_below`` and less
    count as 0 in both networks (TinyBERT task_distill.py); 0: all count as they are.
    """

    kind: Literal["kd(attention)"] = "kd(attention)"
    loss: Literal["mse", "kl"] = "mse"
    of: Literal["scores", "probabilities"] = "scores"
    layers: LayerMap = "uniform"
    zero_below: Annotated[float, Field(le=0, ge=-1e9)] = -100.0
    positional = ("layers",)
    looked_up = ("matched",)

    @model_validator(mode="after")
    def _distributions(self) -> Self:
        if self.loss == "kl" and self.of == "scores":
            raise ValueError("kl compares probabilities, not scores", "of=probabilities, or mse")
        return self

    @property
    def related(self) -> tuple[Related, ...]:
        return ("attention",)

    @property
    def held(self) -> float:
        """The same; scores have with them those that count, as bytes."""
        if self.of == "scores":
            return 4.5
        return 7 if self.loss == "kl" else 8

    def split(self, body: BodyNode, layer: int) -> int:
        return _widths(body, layer).heads


class KdRelations(KdRelated):
    """Relations of tokens in a layer, by the KL divergence of each row from the teacher's.

    ``of=[attention, values]`` is MiniLM (Wang et al. 2020, 3.1 and 3.2); queries, keys and values
    are MiniLMv2 (Wang et al. 2021, 3.1), whose vectors are cut anew into any number of ``heads``,
    0: those of the teacher.
    """

    kind: Literal["kd(relations)"] = "kd(relations)"
    of: Annotated[tuple[Related, ...], Field(min_length=1)] = ("queries", "keys", "values")
    layers: LayerMap = "last"
    heads: Annotated[int, Field(ge=0, le=10_000)] = 0
    positional = ("of", "heads", "layers")
    looked_up = ("matched",)
    loss: ClassVar[Literal["kl"]] = "kl"

    @property
    def related(self) -> tuple[Related, ...]:
        return self.of

    def split(self, body: BodyNode, layer: int) -> int:
        return self.heads


def _widths(body: BodyNode, layer: int) -> op.Widths:
    attended = body.attention_of(layer)
    assert attended is not None, "the checks see to bodies that attend"
    return attended.widths
