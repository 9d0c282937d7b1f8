"""A body of the user's own, above the token table; ``model.own_body`` has its module."""

from collections.abc import Mapping
from typing import Any, Literal

from bertc.ir import operation as op
from bertc.ir.base import Dim, Weight, Width
from bertc.ir.network.body_node import OF_TRANSFORMERS, BodyNode, BodySetting
from bertc.ir.network.layer import Dropout
from bertc.ir.network.table import table_weight
from bertc.ir.own import Own

NAME = "recurrence.0"
"""The beginning of the names of its weights."""


class OwnBody(Own, BodySetting):
    """A module of the user's own, from embeddings (b, s, h) and real tokens to states (b, s, h)."""

    kind: Literal["own"] = "own"
    hidden: Width = 256
    unread = (*OF_TRANSFORMERS, "embedding")
    attends = True

    @property
    def depth(self) -> int:
        return 1

    @property
    def width(self) -> int:
        return self.hidden

    def network(self, texts: int, shared: Mapping[str, Any]) -> "OwnBodyNode":
        return OwnBodyNode(**shared, hidden=self.width, own=self)


class OwnBodyNode(BodyNode):
    """The user's module as the only layer."""

    dropout: Dropout
    own: OwnBody

    body_kind = "own"
    attends = True

    @property
    def depth(self) -> int:
        return 1

    @property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        return {"recurrence": (0,)}

    def settings(self) -> dict[str, Any]:
        shared = ("table", "head", "dropout", "initializer")
        return {"body": self.own, **{name: getattr(self, name) for name in shared}}

    def layer_weights(self) -> tuple[Weight, ...]:
        return tuple(self.own.own_weights(f"{NAME}.own", {"hidden": self.hidden}, "recurrence"))

    def weights(self) -> tuple[Weight, ...]:
        init, steps = self.initializer, self.pooled.steps
        pooler = steps.weights(self.hidden, self.head, self.head_norm, init) if steps else ()
        width: Dim = ("embedding", self.hidden)
        table = table_weight("token", ("vocab", self.vocab_size), width, init)
        return table, *self.layer_weights(), *pooler

    def operations(self, call: op.Call) -> op.Forward:
        """Every row is computed whole; a pooler's mean is of little account."""
        tokens, width, rate = call.rows * call.tokens, self.hidden, self.dropout
        computed = self.own.own_operations({"hidden": width}, call.rows, call.tokens)
        count = sum(weight.numel for weight in self.layer_weights())
        block = op.Block("recurrence", NAME, count, computed)
        pooled = call.rows * call.pooled if self.pooler else 0
        return op.Forward(
            embeddings=(
                *self.table.operations(self.vocab_size, width, width, tokens),
                *((op.Dropout(tokens, width),) if rate.hidden else ()),
            ),
            layers=((block,),)[: call.layers],
            last=(
                *((op.Dropout(tokens, width),) if rate.last else ()),
                *((op.Product(pooled, width, width),) if pooled else ()),
            ),
        )
