"""A body of the user's own, and the closed unions of bodies: as settings, and of known size."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Dim, Weight, Width, once
from bertc.ir.network.bilstm import BiLstm, BiLstmBody
from bertc.ir.network.body_node import OF_TRANSFORMERS, BodyNode, BodySetting, Transformer
from bertc.ir.network.encoder import Encoder, outer_weights
from bertc.ir.network.layer import Dropout, EncoderLayer
from bertc.ir.network.sharing import OUTPUTS
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


BodyKind = Annotated[Transformer | BiLstm | OwnBody, BY_KIND]
"""The setting."""
Body = Encoder | BiLstmBody | OwnBodyNode
"""The body of a network, below its heads."""


def first_position(body: Body) -> int:
    """The number that the first position of a row has."""
    return body.positions.offset if isinstance(body, Encoder) else 0


@once
def counted_weights(body: Body) -> tuple[tuple[tuple[Weight, ...], int, int], ...]:
    """Weights of each part, how often stored and used; equal layers of an encoder are one part."""
    if not isinstance(body, Encoder):
        return ((body.weights(), 1, 1),)
    outside = body.embedding_weights() + body.common_weights() + outer_weights(body)
    outside = body.adapt.mark_frozen(outside + body.residual.weights(body.depth))
    parts = [(outside, 1, 1)]
    layers = [body.layer(layer) for layer in range(body.depth)]
    for part in OUTPUTS:
        alike: dict[EncoderLayer, list[int]] = {}
        for owner in body.owners[part]:
            alike.setdefault(layers[owner], []).append(owner)
        parts += [
            (body.part_weights(part, same[0]), len({*same}), len(same)) for same in alike.values()
        ]
    return tuple(parts)
