"""Heads over the vocabulary: scores of every token from hidden states; and poolers.

The output table is the encoder's token table, of width e, unless a head has its own; states have
width h.
"""

from collections.abc import Mapping
from operator import not_
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Dim, Drawn, Node, On, Probability, Weight, affine, bias, matrix
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import NormFunction
from bertc.ir.network.table import AdaptiveTable, Cluster, TokenTable, share_by_zipf


class TokenHead(NamedTuple):
    """The head over the vocabulary of a network of these widths, tied to its token table."""

    kind: "Head"
    table: TokenTable
    vocab: int
    embedding: int
    hidden: int
    norm: NormFunction
    init: Drawn

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        return self.table.clusters(self.vocab, self.embedding)

    @property
    def table_elements(self) -> int:
        return sum(cluster.size * cluster.width for cluster in self.clusters)

    def weights(self, name: str) -> tuple[Weight, ...]:
        """The weights of the head, the tied table left out."""
        return self.kind.weights(name, self)

    def scores_by_cluster(self, rows: int) -> list[tuple[int, int, int]]:
        """States, their width, and the scores of each, for ``rows`` states: a cluster each.

        Of rarer ones an expected number of states has its target there, by Zipf's law.
        """
        if not isinstance(self.kind, AdaptiveHead):
            return [(rows, self.embedding, self.vocab)]
        first, *rarer = self.clusters
        shares = [(round(rows * share_by_zipf(c, self.vocab)), c.width, c.size) for c in rarer]
        return [(rows, first.width, first.size + len(rarer)), *shares]

    def operations(self, rows: int) -> op.Operations:
        return self.kind.operations(self, rows)

    def scores(self, rows: int) -> int:
        return sum(states * count for states, _, count in self.scores_by_cluster(rows))


class TransformHead(Node):
    """Dense, activation and norm, then the tied table and a bias (BERT, modeling.py).

    ``bias`` of the dense layer; ModernBERT has none (head_pred_bias). ``affine``: the norm has
    scale and shift; LTG-BERT has neither, and ``dropout`` after it. With ``decoder`` masked
    tokens are predicted by the enhanced mask decoder (He et al. 2021, 3.2), which has a table of so
    many absolute positions: see ``model.encoder``. ``tied=false``: a table of its own, and
    ``activation``, if it is not that of the layers (ESM C).
    """

    kind: Literal["transform"] = "transform"
    bias: On = True
    decoder: Annotated[int, Field(ge=0, le=1_000_000, exclude_if=not_)] = 0
    affine: On = True
    dropout: Annotated[Probability, Field(exclude_if=not_)] = 0.0
    tied: On = True
    activation: Annotated[Activation | Literal["same"], Field(exclude_if="same".__eq__)] = "same"

    def weights(self, name: str, head: TokenHead) -> tuple[Weight, ...]:
        narrow: Dim = ("embedding", head.embedding)
        table = matrix(name, ("vocab", head.vocab), narrow, head.init, "head")
        dense = affine(f"{name}.dense", narrow, ("hidden", head.hidden), head.init, "head")
        return (
            *(dense if self.bias else dense[:1]),
            *head.norm.weights(f"{name}.norm", *narrow, part="head"),
            *(table,) * (not self.tied),
            bias(name, ("vocab", head.vocab), "head"),
        )

    def operations(self, head: TokenHead, rows: int) -> op.Operations:
        inner = rows * head.embedding
        return (
            op.Product(rows, head.hidden, head.embedding),
            op.Pointwise("gelu", inner, kept=inner),
            head.norm.operation(rows, head.embedding),
            *((op.Dropout(rows, head.embedding),) if self.dropout else ()),
            op.Product(rows, head.embedding, head.vocab),
            op.VocabularyLoss(rows, head.vocab),
        )


class LinearHead(Node):
    """The tied table, with or without a bias (XLM, XLNet; GPT-2 has none).

    If the table is narrower than the states, a linear layer comes first. ``tied=false``: a map of
    its own takes the place of both (NeoBERT, EuroBERT).
    """

    kind: Literal["linear"] = "linear"
    decoder: ClassVar[int] = 0
    affine: ClassVar[bool] = True
    activation: ClassVar[Literal["same"]] = "same"
    bias: bool = True
    tied: On = True

    def weights(self, name: str, head: TokenHead) -> tuple[Weight, ...]:
        narrow: Dim = ("embedding", head.embedding)
        hidden: Dim = ("hidden", head.hidden)
        maps: tuple[Weight, ...] = ()
        if not self.tied:
            maps = (matrix(name, ("vocab", head.vocab), hidden, head.init, "head"),)
        elif head.embedding != head.hidden:
            maps = affine(f"{name}.dense", narrow, hidden, head.init, "head")
        return (*maps, *((bias(name, ("vocab", head.vocab), "head"),) if self.bias else ()))

    def operations(self, head: TokenHead, rows: int) -> op.Operations:
        narrows = self.tied and head.embedding != head.hidden
        dense = (op.Product(rows, head.hidden, head.embedding),) if narrows else ()
        scores = op.Product(rows, head.embedding if narrows else head.hidden, head.vocab)
        return (*dense, scores, op.VocabularyLoss(rows, head.vocab))


class TwoLayerHead(Node):
    """Two dense layers, an activation after each, then scores; no biases and no norm (UltraBERT).

    The first is ``width`` wide (modeling_ultrabert.py, UltrabertPredictionHead). ``tied=false``: a
    table of its own.
    """

    kind: Literal["two-layer"] = "two-layer"
    decoder: ClassVar[int] = 0
    affine: ClassVar[bool] = True
    activation: ClassVar[Literal["gelu-tanh"]] = "gelu-tanh"
    width: Annotated[int, Field(ge=1, le=1_000_000)] = 768
    tied: On = True
    positional = ("width",)

    def weights(self, name: str, head: TokenHead) -> tuple[Weight, ...]:
        narrow: Dim = ("embedding", head.embedding)
        inner: Dim = ("feature", self.width)
        table = matrix(name, ("vocab", head.vocab), narrow, head.init, "head")
        return (
            matrix(f"{name}.inner", inner, ("hidden", head.hidden), head.init, "head"),
            matrix(f"{name}.dense", narrow, inner, head.init, "head"),
            *(table,) * (not self.tied),
        )

    def operations(self, head: TokenHead, rows: int) -> op.Operations:
        inner, narrow = rows * self.width, rows * head.embedding
        return (
            op.Product(rows, head.hidden, self.width),
            op.Pointwise("gelu", inner, kept=inner),
            op.Product(rows, self.width, head.embedding),
            op.Pointwise("gelu", narrow, kept=narrow),
            op.Product(rows, head.embedding, head.vocab),
            op.VocabularyLoss(rows, head.vocab),
        )


class AdaptiveHead(Node):
    """Softmax over frequent tokens and clusters, then within each cluster (Grave et al. 2017).

    As in Transformer-XL (ProjectedAdaptiveLogSoftmax) its tables are the token tables, and so are
    the projections to the widths of all clusters but the first.
    """

    kind: Literal["adaptive"] = "adaptive"
    decoder: ClassVar[int] = 0
    affine: ClassVar[bool] = True
    activation: ClassVar[Literal["same"]] = "same"
    tied: ClassVar[bool] = True

    def weights(self, name: str, head: TokenHead) -> tuple[Weight, ...]:
        first, *rarer = head.clusters
        table, narrow = head.table, tuple[Weight, ...]()
        labels: Dim = ("labels", len(rarer))
        wide: Dim = ("embedding", first.width)
        assert isinstance(table, AdaptiveTable), "the checks see to that"
        if table.narrows:
            narrow = (table.narrow_map(f"{name}.project", head.hidden, first.width, "head"),)
        return (
            bias(name, ("vocab", head.vocab), "head"),
            matrix(f"{name}.cluster", labels, wide, head.init, "head", "table"),
            bias(f"{name}.cluster", labels, "head"),
            *narrow,
        )

    def operations(self, head: TokenHead, rows: int) -> op.Operations:
        """The first cluster on all states, each other one on the states whose target it holds."""
        operations: list[op.Operation] = []
        for states, width, size in head.scores_by_cluster(rows):
            if head.table.narrows:
                operations.append(op.Product(states, head.hidden, width))
            operations += [op.Product(states, width, size), op.VocabularyLoss(states, size)]
        return tuple(operations)


Head = Annotated[TransformHead | LinearHead | TwoLayerHead | AdaptiveHead, BY_KIND]
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


class Pooling(NamedTuple):
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
        width: Dim = ("hidden", hidden)
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
        first, *rest = self.units
        after = (op.Pointwise(activation, values, kept=values) for activation in rest)
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


class Pooled(NamedTuple):
    """The state of a row, ``width`` wide, after the ``steps`` of a pooler if there is one.

    ``of_rows``: it is made of all states, not of the first alone. ``unit``: activation of heads.
    """

    of_rows: bool
    width: int
    steps: Pooling | None
    unit: Activation

    @property
    def of_tokens(self) -> bool:
        """True if states of tokens go through the pooler too before a task scores them."""
        return self.steps is not None and self.steps.transforms

    def operations(self, rows: int) -> op.Operations:
        """Steps between the pooler's product and a head; before a mean they are the network's."""
        if self.steps is None or self.steps.mean == "after":
            return ()
        return self.steps.operations(rows, self.width, self.unit)
