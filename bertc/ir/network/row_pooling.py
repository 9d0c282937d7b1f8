"""The base of bodies that make the vector of a row of all its tokens, not of the first alone."""

from abc import abstractmethod
from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Axis, Weight, Width, affine
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.body_setting import BodySetting, Shared
from bertc.ir.network.ffn import Activation
from bertc.ir.network.head import Pooled, Pooling
from bertc.ir.network.layer import Dropout
from bertc.ir.network.norm import LayerNorm, NormFunction

COMPARED = 4
"""Vectors that two texts are compared by: u, v, u * v and |u - v|."""


class RowPooling(BodySetting):
    """A kind of body that pools the texts of a row, each by itself unless ``pairs=joined``."""

    hidden: Width
    pairs: Literal["apart", "joined"] = "apart"
    units: Width

    @property
    def segments(self) -> int:
        """Two, which mark the texts of a row."""
        return 2

    def shared_fields(self, shared: Shared) -> dict[str, Any]:
        """The fields that all such bodies have; texts are compared only with ``pairs=apart``."""
        texts = shared.texts if self.pairs == "apart" else 1
        return {**vars(shared), "hidden": self.width, "texts": texts}


class RowPoolingBody(BodyNode):
    """A body that pools each of up to ``texts`` texts of a row, and compares two."""

    dropout: Dropout
    texts: Annotated[int, Field(ge=1, le=2)]

    @property
    @abstractmethod
    def setting(self) -> RowPooling:
        """The kind with its arguments."""

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.setting.depth

    @property
    def kinds_of_segments(self) -> int:
        """The two texts of a pair."""
        return self.setting.segments

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

    @property
    def pooled(self) -> Pooled:
        """The vector of a row, or the pooler's units."""
        steps = Pooling(("relu",)) if self.pooler else None
        width = self.setting.units if steps else self.row_width
        return Pooled(True, width, steps, self.head_activation)

    def settings(self) -> dict[str, Any]:
        """The kind with its arguments, and those of all kinds that it reads."""
        shared = ("embedding", "table", "head", "dropout", "initializer")
        read = (name for name in shared if name not in self.setting.unread)
        return {"body": self.setting, **{name: getattr(self, name) for name in read}}

    def token_table(self) -> Weight:
        """The vectors of tokens."""
        axes: tuple[Axis, Axis] = ("vocab", "embedding")
        shape, init = (self.vocab_size, self.embedding), self.initializer
        return Weight("embeddings.token.weight", shape, axes, init, "embeddings", "table")

    def pooler_weights(self) -> tuple[Weight, ...]:
        """The layer of units, if there is one."""
        units: tuple[Axis, int] = ("feature", self.setting.units)
        row: tuple[Axis, int] = ("hidden", self.row_width)
        return affine("pooler", units, row, self.initializer, "pooler") if self.pooler else ()

    def pooler_operations(self, call: op.Call) -> op.Operations:
        """The product of the layer of units, if there is one."""
        pooled = call.rows * call.pooled if self.pooler else 0
        return (op.Product(pooled, self.row_width, self.setting.units),) if pooled else ()
