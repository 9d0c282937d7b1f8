"""The closed unions of bodies: as settings, and with every dimension known."""

from typing import Annotated

from bertc.ir.base import BY_KIND, Weight, once
from bertc.ir.network.bilstm import BiLstm, BiLstmBody
from bertc.ir.network.body_node import Transformer
from bertc.ir.network.encoder import Encoder, outer_weights
from bertc.ir.network.layer import EncoderLayer
from bertc.ir.network.own_body import OwnBody, OwnBodyNode
from bertc.ir.network.sharing import OUTPUTS

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
