"""A body of the user's own, and the closed unions of bodies: as settings, and of known size."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Weight, Width, once
from bertc.ir.network.bilstm import AboveTable, BiLstm, BiLstmBody
from bertc.ir.network.body_node import OF_TRANSFORMERS, BodySetting, Transformer
from bertc.ir.network.encoder import Encoder, outer_weights
from bertc.ir.network.layer import EncoderLayer
from bertc.ir.network.sharing import OUTPUTS
from bertc.ir.own import Own


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


class OwnBodyNode(AboveTable):
    """The user's module as the only layer."""

    own: OwnBody

    body_kind = "own"
    attends = True

    @property
    def setting(self) -> OwnBody:
        return self.own

    def layer_weights(self, layer: int) -> tuple[Weight, ...]:
        sizes = {"hidden": self.hidden}
        return tuple(self.own.own_weights(f"recurrence.{layer}.own", sizes, "recurrence"))

    def pooler_weights(self) -> tuple[Weight, ...]:
        hidden, init, steps = self.hidden, self.initializer, self.pooled.steps
        return steps.weights(hidden, self.head, self.head_norm, init) if steps else ()

    def layer_operations(self, layer: int, call: op.Call) -> op.Operations:
        return self.own.own_operations({"hidden": self.hidden}, call.rows, call.tokens)


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
