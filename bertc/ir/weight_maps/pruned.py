"""Pruning: what is removed of a network, the entries of its weights, and the network that is left.

Names and shapes alone; ``bertc.hub.leaving.pruned`` cuts the tensors.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

from bertc.ir.methods.pruning import NOTHING, Units
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import AXES, SharedPart
from bertc.ir.program import MAIN, Resolved

ByLayer = Mapping[int, Sequence[int]]
"""Numbers of heads or neurons, by the layer that owns them."""
Removed = Mapping[SharedPart, ByLayer]
"""Heads and neurons that are removed, by part."""


class Entries(NamedTuple):
    """The axis of a weight along which the heads or neurons of a layer lie in order, how many."""

    part: SharedPart
    layer: int
    axis: int
    units: int


def units(encoder: Encoder, part: SharedPart) -> dict[int, int]:
    """The number of heads or neurons of each layer that owns some."""
    return {n: getattr(encoder.layers[n], AXES[part]) for n in sorted({*encoder.owners[part]})}


def entries(encoder: Encoder) -> dict[str, Entries]:
    """The weights of an encoder's heads and neurons, by their names in a model."""
    places = {}
    for part in get_args(SharedPart):
        counts = units(encoder, part)
        for weight in encoder.weights():
            first, second, *_ = weight.name.split(".")
            if first == part and AXES[part] in weight.axes:
                axis, layer = weight.axes.index(AXES[part]), int(second)
                places[f"{MAIN}.{weight.name}"] = Entries(part, layer, axis, counts[layer])
    return places


def prune(resolved: Resolved, removed: Removed) -> Resolved:
    """The program as if every stage trained the network that is left, and removed nothing more."""
    encoder = resolved.encoder
    assert isinstance(encoder, Encoder), "the checks allow pruning of transformers alone"
    layers = [*encoder.layers]
    for part, axis in AXES.items():
        for n, owner in enumerate(encoder.owners[part]):  # whose part those that share it have
            left = getattr(layers[n], axis) - len(removed.get(part, {}).get(owner, ()))
            layers[n] = layers[n].model_copy(update={axis: left})
    encoder = encoder.model_copy(update={"layers": tuple(layers)})
    return resolved.with_stages(lambda _: {"encoder": encoder, "grow": None, "prune": NOTHING})


def choose_by_score(
    kind: Units, scores: Mapping[int, Sequence[float]], gone: ByLayer, share: float
) -> dict[int, list[int]]:
    """The units gone so that this share is: those of low scores, the first of equals first.

    Every layer keeps one, so the next lowest goes where that would be the last.
    """
    removed = {layer: set(gone.get(layer, ())) for layer in scores}
    groups = [[layer] for layer in scores] if kind.within == "layer" else [list(scores)]
    for layers in groups:
        total = sum(len(scores[layer]) for layer in layers)
        missing = min(round(share * total), total - len(layers))
        missing -= sum(len(removed[layer]) for layer in layers)
        ranked = list[tuple[float, int, int]]()
        for layer in layers:
            left = [pair for pair in enumerate(scores[layer]) if pair[0] not in removed[layer]]
            norm = math.hypot(*(score for _, score in left)) if kind.normalize else 1.0
            ranked += [(score / (norm or 1.0), unit, layer) for unit, score in left]
        for _, unit, layer in sorted(ranked):
            if missing > 0 and len(removed[layer]) < len(scores[layer]) - 1:
                removed[layer].add(unit)
                missing -= 1
    return {layer: sorted(removed[layer]) for layer in scores}


def program_left(resolved: Resolved) -> Resolved | None:
    """The program after its stages removed their shares, alike in all layers; None if none does."""
    encoder = resolved.encoder
    removed = dict[SharedPart, ByLayer]()
    for stage in resolved.stages:
        if not isinstance(kind := stage.prune, Units) or not isinstance(encoder, Encoder):
            continue
        alike = {layer: [0.0] * number for layer, number in units(encoder, kind.part).items()}
        removed[kind.part] = choose_by_score(kind, alike, removed.get(kind.part, {}), kind.share)
    return prune(resolved, removed) if removed else None
