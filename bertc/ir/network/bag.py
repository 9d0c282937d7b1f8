"""A bag of tokens: a table, pooled; ``nn.bag`` has its module.

The static embeddings that model2vec (MinishLab) makes of a sentence transformer are such a bag.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import ONES, Axis, Weight, Width, affine
from bertc.ir.network.bilstm import COMPARED
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.body_setting import OF_TRANSFORMERS, BodySetting, Shared
from bertc.ir.network.encoder import Dropout
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import LayerNorm, NormFunction


class Bag(BodySetting):
    """A table of vectors ``hidden`` wide; a text is the mean of those of its tokens.

    With ``pool=weighted`` each token's vector is first multiplied by a learned number of its own.
    Of two texts the vectors u and v are compared as [u; v; u * v; |u - v|]; with ``pairs=joined``
    they are one text. Where there is a pooler, a layer of so many ``units`` with ReLU follows.
    """

    kind: Literal["bag"] = "bag"
    hidden: Width = 256  # model2vec, distill pca_dims
    pool: Literal["mean", "weighted"] = "mean"
    pairs: Literal["apart", "joined"] = "apart"
    units: Width = 512  # model2vec, StaticModelForClassification hidden_dim
    positional = ("hidden",)
    unread = (*OF_TRANSFORMERS, "embedding")

    @property
    def depth(self) -> int:
        """None: there are no layers."""
        return 0

    @property
    def width(self) -> int:
        """The width of the table."""
        return self.hidden

    @property
    def segments(self) -> int:
        """Two, which mark the texts of a row."""
        return 2

    def network(self, shared: Shared) -> "BagBody":
        """The body; two texts are compared only with ``pairs=apart``."""
        return BagBody(
            vocab_size=shared.vocab_size,
            embedding=self.hidden,
            hidden=self.hidden,
            table=shared.table,
            causal=shared.causal,
            pooler=shared.pooler,
            head=shared.head,
            initializer=shared.initializer,
            bag=self,
            dropout=shared.dropout,
            texts=shared.texts if self.pairs == "apart" else 1,
        )


class BagBody(BodyNode):
    """The table, and what is made of up to ``texts`` texts of a row."""

    bag: Bag
    dropout: Dropout
    texts: Annotated[int, Field(ge=1, le=2)]

    body_kind = "bag"
    pools_rows = True

    @property
    def depth(self) -> int:
        """None."""
        return 0

    @property
    def kinds_of_segments(self) -> int:
        """The two texts of a pair."""
        return self.bag.segments

    @property
    def head_norm(self) -> NormFunction:
        """The norm of BERT's heads."""
        return LayerNorm(eps=1e-12)

    @property
    def head_activation(self) -> Activation:
        """The activation of BERT's heads."""
        return "gelu"

    @property
    def row_width(self) -> int:
        """Width of the vector of a row, before the pooler."""
        return self.hidden * (COMPARED if self.texts > 1 else 1)

    def read_width(self, pooled: bool) -> int:
        """Pooled, that of the pooler's units, or without a pooler of the vector of a row."""
        if not pooled:
            return self.hidden
        return self.bag.units if self.pooler else self.row_width

    def settings(self) -> dict[str, Any]:
        """The kind with its arguments, and those that all kinds have."""
        shared = ("table", "head", "dropout", "initializer")
        return {"body": self.bag, **{name: getattr(self, name) for name in shared}}

    def embedding_weights(self) -> tuple[Weight, ...]:
        """The table, and a number for each token if they are weighted."""
        axes: tuple[Axis, Axis] = ("vocab", "embedding")
        shape, init = (self.vocab_size, self.embedding), self.initializer
        table = Weight("embeddings.token.weight", shape, axes, init, "embeddings", "table")
        numbers = Weight(
            "embeddings.scale.weight", (self.vocab_size, 1), axes, ONES, "embeddings", "table"
        )
        return (table, *((numbers,) if self.bag.pool == "weighted" else ()))

    def pooler_weights(self) -> tuple[Weight, ...]:
        """The layer of units, if there is one."""
        units: tuple[Axis, int] = ("feature", self.bag.units)
        row: tuple[Axis, int] = ("hidden", self.row_width)
        return affine("pooler", units, row, self.initializer, "pooler") if self.pooler else ()

    def weights(self) -> tuple[Weight, ...]:
        """In the order of the forward pass."""
        return (*self.embedding_weights(), *self.pooler_weights())

    def operations(self, call: op.Call) -> op.Forward:
        """A lookup of every token, and the units of each row."""
        tokens = call.rows * call.tokens
        pooled = call.rows * call.pooled if self.pooler else 0
        numbers = (op.Lookup(tokens, 1, self.vocab_size), op.Copy(tokens * self.hidden, kept=True))
        return op.Forward(
            embeddings=(
                *self.table.operations(self.vocab_size, self.embedding, self.hidden, tokens),
                *(numbers if self.bag.pool == "weighted" else ()),
                *((op.Dropout(tokens, self.hidden),) if self.dropout.hidden else ()),
            ),
            layers=(),
            last=((op.Product(pooled, self.row_width, self.bag.units),) if pooled else ()),
        )

    def pooled_operations(self, rows: int) -> op.Operations:
        """ReLU of the units."""
        units = rows * self.bag.units
        return (op.Pointwise("relu", units, kept=2 * units),) if self.pooler else ()
