"""A model without some of its attention heads or layers, to see what they are worth."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from bertc.base.diagnostics import DataError, UsageError, several
from bertc.hub.pruned import entries_of
from bertc.ir.changing.growth import Kept
from bertc.ir.changing.pruning import units
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.stage import Stage
from bertc.ir.weight_maps.grow import weight_map
from bertc.ir.weight_maps.prune import cut_to_layers, entries
from bertc.model import Model, build

HeadNames = tuple[tuple[int, int], ...]
"""Heads, each as layer and number, both from 0."""


class LeftOut(NamedTuple):
    """Heads as ``3.5,7.1`` (layer and head), layers as ``3,7``, all from 0; "" for none."""

    heads: str = ""
    layers: str = ""


NOTHING_LEFT_OUT = LeftOut()


def transformer_of(model: Model) -> Encoder:
    """The node of a model's encoder.

    Raises:
        DataError: if it is another kind of network.
    """
    node = model.encoder.node
    if not isinstance(node, Encoder):
        raise DataError(
            f"this network is a {node.body_kind}, which has no attention heads",
            help="name a run of a transformer",
        )
    return node


@contextmanager
def leaving_out(model: Model, left_out: LeftOut) -> Iterator[Model]:
    """The model without some heads and layers, within the block; its own weights are restored.

    Raises:
        UsageError, DataError: as ``heads_named`` and ``layers_named``.
    """
    with without_heads(model, left_out.heads):
        yield without_layers(model, left_out.layers)


def refuse_compared_layers(stage: Stage, left_out: LeftOut, run: Path) -> None:
    """Refuse to leave out layers of a network whose layers a term of the stage compares.

    Raises:
        UsageError: naming the terms.
    """
    wanted = {t.name: t.objective.wanted(learned=True) for t in stage.objective}
    compared = [
        n
        for n, layers_wanted in wanted.items()
        if max((0, *layers_wanted.states, *layers_wanted.projections))
    ]
    if left_out.layers and compared:
        rest = "+".join(name for name in wanted if name not in compared)
        objective = f" objective={rest}" if rest else ""
        raise UsageError(
            f"{' and '.join(compared)} holds its layers against a teacher's: without some of them "
            "its loss would be of other layers",
            help=f'train on without it, and evaluate that run: init="{run}"{objective}',
        )


def heads_named(text: str, model: Model) -> HeadNames:
    """Heads written as ``3.5,7.1``: head 5 of layer 3, and head 1 of layer 7, counted from 0.

    Raises:
        UsageError: if there is no such head, or layers share it and another one owns it.
        DataError: if the network has no heads.
    """
    node = transformer_of(model)
    counts, names = units(node, "attention"), []
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"(\d+)\.(\d+)", part)
        if not match:
            raise UsageError(
                f"{part!r} names no head", help="write layer.head, counted from 0: 3.5,7.1"
            )
        layer, head = map(int, match.groups())
        if layer >= node.depth or head >= node.layers[layer].heads:
            there = f"the network has {several(node.depth, 'layer')}"
            if layer < node.depth:
                there = f"layer {layer} has {node.layers[layer].heads} heads"
            raise UsageError(
                f"there is no head {part}: {there}", help="both numbers are counted from 0"
            )
        if layer not in counts:
            owner = node.attention_owner[layer]
            raise UsageError(
                f"layer {layer} shares its attention with layer {owner}",
                help=f"{owner}.{head} is the head of all that share it",
            )
        names.append((layer, head))
    return tuple(dict.fromkeys(names))


@contextmanager
def without_heads(model: Model, named: str) -> Iterator[None]:
    """Set the weights of the named heads to zero within the block.

    Raises:
        UsageError, DataError: as ``heads_named``.
    """
    heads = heads_named(named, model) if named else ()
    places = entries(transformer_of(model)) if heads else {}
    parameters = dict(model.named_parameters())
    before = {}
    with torch.no_grad():
        for name, place in places.items():
            gone = [head for layer, head in heads if layer == place.layer]
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


def layers_named(text: str, model: Model) -> tuple[int, ...]:
    """Layers written as ``3,7``, counted from 0.

    Raises:
        UsageError: if there is no such layer, or none would be left.
        DataError: if the network is no transformer.
    """
    depth, names = transformer_of(model).depth, list[int]()
    for part in filter(None, map(str.strip, text.split(","))):
        if not part.isdecimal() or not part.isascii():
            raise UsageError(f"{part!r} names no layer", help="write numbers from 0: 3,7")
        if int(part) >= depth:
            raise UsageError(
                f"there is no layer {part}: the network has {depth}", help="the first one is 0"
            )
        names.append(int(part))
    if len({*names}) == depth:
        raise UsageError("no layer would be left", help="leave out fewer")
    return tuple(sorted({*names}))


def without_layers(model: Model, named: str) -> Model:
    """A model of the layers that are left, which shares their weights; the model itself if all are.

    Raises:
        UsageError, DataError: as ``layers_named``.
    """
    gone = layers_named(named, model) if named else ()
    if not gone:
        return model
    if any(task.layers for stage in model.resolved.stages for task in stage.tasks):
        raise DataError(
            "its head reads layers by their depth (features), and others would take their place",
            help="leave out heads, as in --without-heads 3.5",
        )
    rest = tuple(layer for layer in range(transformer_of(model).depth) if layer not in gone)
    smaller = cut_to_layers(model.resolved, rest)
    places, tensors = (
        weight_map(model.resolved, smaller, Kept(layers=rest)),
        model.state_dict(),
    )
    cut = build(smaller, "meta")
    weights = {name: tensors[source] for name, source in places.copies.items()}
    cut.load_state_dict(weights, assign=True)
    cut.untrained, cut.compute_dtype = model.untrained, model.compute_dtype
    return cut.eval()
