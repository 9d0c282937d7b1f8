"""A model without some of its attention heads, to see what they are worth."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.hub.leaving.pruned import entries_of
from bertc.ir.network.encoder import Encoder
from bertc.ir.weight_maps.pruned import entries
from bertc.model import Model


def transformer_of(model: Model) -> Encoder:
    """The node of a model's encoder."""
    node = model.encoder.node
    if not isinstance(node, Encoder):
        raise DataError(
            f"this network is a {node.body_kind}, which has no attention heads",
            help="name a run of a transformer",
        )
    return node


@contextmanager
def without_heads(model: Model, heads: Collection[tuple[int, int]]) -> Iterator[None]:
    """Set the weights of some heads, each a layer and a number, to zero within the block."""
    places = entries(transformer_of(model)) if heads else {}
    parameters, before = dict(model.named_parameters()), dict[str, Tensor]()
    with torch.no_grad():
        for name, place in places.items():
            gone = [number for layer, number in heads if layer == place.layer]
            if place.part == "attention" and gone:
                before[name] = parameters[name].clone()
                mask = entries_of(parameters[name], place, gone)
                parameters[name][mask.to(parameters[name].device)] = 0
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in before.items():
                parameters[name].copy_(tensor)
