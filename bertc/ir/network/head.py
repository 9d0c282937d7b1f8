"""Heads over the vocabulary: scores of every token from hidden states; and poolers.

The output table is the encoder's token table, of width e, unless a head has its own; states have
width h.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import not_
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import ZEROS, Axis, Drawn, Node, On, Weight, affine, bias, matrix
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import NormFunction
from bertc.ir.network.table import AdaptiveTable, share_by_zipf


class TransformHead(Node):
    """Dense, activation and norm, then the tied table and a bias (BERT, modeling.py).

    ``bias`` of the dense layer; ModernBERT has none (head_pred_bias). With ``decoder`` masked
    tokens are predicted by the enhanced mask decoder (He et al. 2021, 3.2), which has a table of so
    many absolute positions: see ``nn.encoder``.
    """

    kind: Literal["transform"] = "transform"
    bias: On = True
    decoder: Annotated[int, Field(ge=0, le=1_000_000, exclude_if=not_)] = 0

    def weights(
        self, name: str, hidden: int, embedding: int, vocab: int, norm: NormFunction, init: Drawn
    ) -> tuple[Weight, ...]:
        """Dense (hidden -> embedding), norm, and a bias over the vocabulary."""
        narrow: tuple[Axis, int] = ("embedding", embedding)
        dense = affine(f"{name}.dense", narrow, ("hidden", hidden), init, "head")
        return (
            *(dense if self.bias else dense[:1]),
            *norm.weights(f"{name}.norm", *narrow, part="head"),
            bias(name, ("vocab", vocab), "head"),
        )

    def operations(self, hidden: int, embedding: int, vocab: int, rows: int) -> op.Operations:
        """The transform, the projection onto the vocabulary, and its loss."""
        inner = rows * embedding
        return (
            op.Product(rows, hidden, embedding),
            op.Pointwise("gelu", inner, kept=inner),
            op.Norm(rows, embedding),
            op.Product(rows, embedding, vocab),
            op.VocabularyLoss(rows, vocab),
        )


class LinearHead(Node):
    """The tied table, with or without a bias (XLM, XLNet; GPT-2 has none).

    If the table is narrower than the states, a linear layer comes first. ``tied=false``: a map of
    its own takes the place of both (NeoBERT, EuroBERT).
    """

    kind: Literal["linear"] = "linear"
    decoder: ClassVar[int] = 0
    bias: bool = True
    tied: On = True

    def weights(
        self, name: str, hidden: int, embedding: int, vocab: int, norm: NormFunction, init: Drawn
    ) -> tuple[Weight, ...]:
        """The weights before the tied table or in its place, and the bias if any."""
        narrow: tuple[Axis, int] = ("embedding", embedding)
        maps: tuple[Weight, ...] = ()
        if not self.tied:
            maps = (matrix(name, ("vocab", vocab), ("hidden", hidden), init, "head"),)
        elif embedding != hidden:
            maps = affine(f"{name}.dense", narrow, ("hidden", hidden), init, "head")
        return (*maps, *((bias(name, ("vocab", vocab), "head"),) if self.bias else ()))

    def operations(self, hidden: int, embedding: int, vocab: int, rows: int) -> op.Operations:
        """The linear layer if there is one, the projection onto the vocabulary, and its loss."""
        narrows = self.tied and embedding != hidden
        dense = (op.Product(rows, hidden, embedding),) if narrows else ()
        scores = op.Product(rows, embedding if narrows else hidden, vocab)
        return (*dense, scores, op.VocabularyLoss(rows, vocab))


class AdaptiveHead(Node):
    """Softmax over frequent tokens and clusters, then within each cluster (Grave et al. 2017).

    As in Transformer-XL (ProjectedAdaptiveLogSoftmax) its tables are the token tables, and so are
    the projections to the widths of all clusters but the first.
    """

    kind: Literal["adaptive"] = "adaptive"
    decoder: ClassVar[int] = 0

    def weights(
        self, name: str, hidden: int, vocab: int, table: AdaptiveTable, init: Drawn
    ) -> tuple[Weight, ...]:
        """A bias per token, a vector and a bias per cluster, and the first projection."""
        first, *rarer = table.clusters(vocab, hidden)
        shape = (len(rarer), first.width)
        axes: tuple[Axis, Axis] = ("labels", "embedding")
        return (
            Weight(f"{name}.bias", (vocab,), ("vocab",), ZEROS, "head", "bias"),
            Weight(f"{name}.cluster.weight", shape, axes, init, "head", "table"),
            Weight(f"{name}.cluster.bias", (len(rarer),), ("labels",), ZEROS, "head", "bias"),
            *(
                (table.narrow_map(f"{name}.project", hidden, first.width, "head"),)
                if table.narrows
                else ()
            ),
        )

    def rows(self, vocab: int, table: AdaptiveTable, rows: int) -> tuple[int, ...]:
        """Expected number of the states that each rarer cluster scores, by Zipf's law."""
        rarer = table.clusters(vocab, 0)[1:]
        return tuple(round(rows * share_by_zipf(cluster, vocab)) for cluster in rarer)

    def operations(self, hidden: int, vocab: int, table: AdaptiveTable, rows: int) -> op.Operations:
        """The first cluster on all states, each other one on the states whose target it holds."""
        first, *rarer = table.clusters(vocab, hidden)
        scored = [(rows, first.width, first.size + len(rarer))]
        for states, cluster in zip(self.rows(vocab, table, rows), rarer, strict=True):
            scored.append((states, cluster.width, cluster.size))
        operations: list[op.Operation] = []
        for states, width, size in scored:
            if table.narrows:
                operations.append(op.Product(states, hidden, width))
            operations += [op.Product(states, width, size), op.VocabularyLoss(states, size)]
        return tuple(operations)


Head = Annotated[TransformHead | LinearHead | AdaptiveHead, Field(discriminator="kind")]
"""The closed union of heads over the vocabulary."""


PoolerKind = (
    bool
    | Literal["relu", "tanh-relu", "gelu", "mean-gelu", "gelu-mean", "transform", "mean-transform"]
)
"""False for none, True for BERT's, with tanh; DistilBERT's pre_classifier has ReLU.

TinyBERT's classifier applies ReLU to what tanh gives (transformer/modeling.py). EuroBERT's has GELU
on the first state, on the mean of all, or on each of them before the mean. ``transform`` is what a
masked-LM head does before its table; words that are tagged go through it too (modeling_modernbert).
"""


@dataclass(frozen=True)
class Pooling:
    """The steps of a pooler after its dense layer, and the states that it reads.

    ``units`` are activations in order; none: the encoder's for heads, and a norm. ``mean`` is over
    the tokens of a row, before the dense layer or at the end; without it the first state is read.
    """

    units: tuple[Activation, ...] = ()
    mean: Literal["none", "before", "after"] = "none"

    def weights(
        self, hidden: int, head: "Head", norm: NormFunction, init: Drawn
    ) -> tuple[Weight, ...]:
        """The dense layer, and the norm; with a bias as the head over the vocabulary has it."""
        width: tuple[Axis, int] = ("hidden", hidden)
        dense = affine("pooler", width, width, init, "pooler")
        if not self.transforms:
            return dense
        plain = isinstance(head, TransformHead) and not head.bias
        return (
            *(dense[:1] if plain else dense),
            *norm.weights("pooler.norm", *width, part="pooler"),
        )

    @property
    def transforms(self) -> bool:
        """True for the steps of a masked-LM head."""
        return not self.units

    def operations(self, states: int, width: int, unit: Activation) -> op.Operations:
        """Operations after the dense layer; ``unit`` is the activation of heads."""
        values = states * width
        if self.transforms:
            return (op.Pointwise(unit, values, kept=values), op.Norm(states, width))
        first, *others = self.units
        after = (op.Pointwise(activation, values, kept=values) for activation in others)
        return (op.Pointwise(first, values, kept=2 * values), *after)


POOLINGS: Mapping[PoolerKind, Pooling] = {
    True: Pooling(("tanh",)),
    "relu": Pooling(("relu",)),
    "tanh-relu": Pooling(("tanh", "relu")),
    "gelu": Pooling(("gelu",)),
    "mean-gelu": Pooling(("gelu",), mean="before"),
    "gelu-mean": Pooling(("gelu",), mean="after"),
    "transform": Pooling(),
    "mean-transform": Pooling(mean="before"),
}
"""The steps of each kind of pooler."""
