"""Growing: the weights and moments of a new network from those of the previous one."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from bertc.base.diagnostics import several
from bertc.ir.changing.growth import Turned
from bertc.ir.program.model import model_weights
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.ir.terms.node import LanguageModel
from bertc.ir.weight_maps import WeightMap, weight_map
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.optim.optimizers import zero_moments
from bertc.model import Model, build


def grow_model(
    resolved: Resolved,
    before: Stage,
    after: Stage,
    weights: Mapping[str, Tensor],
    moments: Mapping[str, Tensor],
) -> tuple[Model, Moments]:
    """The model of stage ``after`` and its moments, from the whole tensors of stage ``before``."""
    assert after.grow is not None, "only a stage whose network differs grows"
    target = resolved.as_in(after)
    places = weight_map(resolved.as_in(before), target, after.grow)
    if before.encoder.causal != after.encoder.causal:
        # The head over the vocabulary goes on under another objective's name.
        heads = [
            f"heads.{term.objective.head_name}."
            for stage in (before, after)
            for term in stage.objective
            if isinstance(term.objective, LanguageModel)
            and stage.learner(term.objective).name == MAIN
        ]
        if len(heads) > 1:
            old, new = heads[0], heads[-1]
            moved = {n: n.replace(new, old) for n in places.copies if n.startswith(new)}
            places = replace(places, copies={**places.copies, **moved})
    model = build(target)
    parameters = dict(model.named_parameters())
    move(places, weights, parameters)
    fresh = zero_moments(after.optimizer, model_weights(target), parameters)
    if after.grow.moments == "carry":
        move(places.moments(fresh), moments, fresh)
    return model, fresh


def described(before: Stage, after: Stage) -> str:
    """A line on the origin of a stage's networks."""
    if isinstance(after.grow, Turned):
        seen = "earlier tokens alone" if after.encoder.causal else "all tokens of a row"
        return f"stage {after.name} goes on with these weights, each token attending to {seen}"
    assert after.grow is not None, "only a stage whose network differs grows"
    if before.layers == after.layers:
        return f"stage {after.name} continues with these weights and a new optimiser"
    deeper = several(after.layers, "layer")
    return f"the network grows from {before.layers} to {deeper}: {after.grow.kind}"


@torch.no_grad()
def move(places: WeightMap, old: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> None:
    """Fill new tensors from old ones by a map of weights, wider ones tiled; none share memory."""
    for name, source in places.copies.items():
        tensor = old[source]
        for axis, (wide, narrow) in enumerate(zip(new[name].shape, tensor.shape, strict=True)):
            if wide != narrow:  # repeated around its middle
                entries = torch.arange(wide, device=tensor.device) - (wide - narrow) // 2
                tensor = tensor.index_select(axis, entries % narrow)
        new[name].copy_(tensor)
    for name in places.zeros:
        new[name].zero_()
