"""A bag of tokens: a table, pooled; ``nn.bag`` has its module.

The static embeddings that model2vec (MinishLab) makes of a sentence transformer are such a bag.
"""

from dataclasses import replace
from typing import Literal

from bertc.ir import operation as op
from bertc.ir.base import ONES, Weight, Width
from bertc.ir.network.body_setting import OF_TRANSFORMERS, Shared
from bertc.ir.network.row_pooling import RowPooling, RowPoolingBody


class Bag(RowPooling):
    """A table of vectors ``hidden`` wide; a text is the mean of those of its tokens.

    With ``pool=weighted`` each token's vector is first multiplied by a learned number of its own.
    Of two texts the vectors u and v are compared as [u; v; u * v; |u - v|]; with ``pairs=joined``
    they are one text. Where there is a pooler, a layer of so many ``units`` with ReLU follows.
    """

    kind: Literal["bag"] = "bag"
    hidden: Width = 256  # model2vec, distill pca_dims
    pool: Literal["mean", "weighted"] = "mean"
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

    def network(self, shared: Shared) -> "BagBody":
        """The body, whose states are as wide as its table."""
        return BagBody(**{**self.shared_fields(shared), "embedding": self.hidden, "bag": self})


class BagBody(RowPoolingBody):
    """The table, and what is made of the texts of a row."""

    bag: Bag

    body_kind = "bag"

    @property
    def setting(self) -> Bag:
        """The kind with its arguments."""
        return self.bag

    def embedding_weights(self) -> tuple[Weight, ...]:
        """The table, and a number for each token if they are weighted."""
        table = self.token_table()
        numbers = replace(
            table, name="embeddings.scale.weight", shape=(self.vocab_size, 1), init=ONES
        )
        return (table, *((numbers,) if self.bag.pool == "weighted" else ()))

    def weights(self) -> tuple[Weight, ...]:
        """In the order of the forward pass."""
        return (*self.embedding_weights(), *self.pooler_weights())

    def operations(self, call: op.Call) -> op.Forward:
        """A lookup of every token, and the units of each row."""
        tokens = call.rows * call.tokens
        numbers = (op.Lookup(tokens, 1, self.vocab_size), op.Copy(tokens * self.hidden, kept=True))
        return op.Forward(
            embeddings=(
                *self.table.operations(self.vocab_size, self.embedding, self.hidden, tokens),
                *(numbers if self.bag.pool == "weighted" else ()),
                *((op.Dropout(tokens, self.hidden),) if self.dropout.hidden else ()),
            ),
            layers=(),
            last=self.pooler_operations(call),
        )
