"""The state of a run as a checkpoint holds it: weights, moments, progress; how networks grow."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from pydantic import Field, TypeAdapter
from torch import Tensor

from bertc.base.diagnostics import several
from bertc.base.storage.paths import is_file
from bertc.ir.changing.growth import Turned
from bertc.ir.learning.optimizer import moments_of
from bertc.ir.program import MAIN, Resolved, Stage, model_weights
from bertc.ir.terms.node import LanguageModel
from bertc.ir.weight_maps import WeightMap, weight_map
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.optim.optimizers import zero_moments
from bertc.learn.step.memory import files
from bertc.model import Model, build
from bertc.run.beginning.init_from import Source
from bertc.run.records import checkpoints
from bertc.run.records.metrics import FINITE, Count, Sums

Tensors = Mapping[str, Tensor]


def grow_model(
    resolved: Resolved, before: Stage, after: Stage, weights: Tensors, moments: Tensors
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
            places = places._replace(copies={**places.copies, **moved})
    model = build(target)
    parameters = dict(model.named_parameters())
    move(places, weights, parameters)
    fresh = zero_moments(after.optimizer, model_weights(target), parameters)
    if after.grow.moments == "carry":
        move(places.moments(fresh), moments, fresh)
    return model, fresh


def describe_growth(before: Stage, after: Stage) -> str:
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
def move(places: WeightMap, old: Tensors, new: Tensors) -> None:
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


@dataclass
class Best:
    """The best evaluation of a stage so far, and how many came since."""

    __pydantic_config__ = FINITE

    step: Count
    score: float
    shown: dict[str, Any]
    waited: Count = 0


@dataclass
class Progress:
    """Counters of a run; with the weights and moments, all that resuming needs.

    ``evaluated`` is the last step with an evaluation, ``sums`` what the next line of metrics
    has the means of, ``metrics_bytes`` the length of the metrics file. ``best`` is set in a stage
    with patience, from its first evaluation to its end.
    """

    __pydantic_config__ = FINITE

    step: Count = 0
    tokens: Count = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0
    evaluated: Count = 0
    metrics_bytes: Count = 0
    sums: Sums = field(default_factory=Sums)
    best: Best | None = None

    @staticmethod
    def of(content: Any) -> "Progress":
        """The progress in a checkpoint's JSON, whose digest was verified."""
        return _PROGRESS.validate_json(json.dumps(content))


_PROGRESS = TypeAdapter(Progress)


@dataclass(frozen=True)
class State:
    """Model, moments and progress; tensors beside them, by file."""

    model: Model
    moments: Moments
    progress: Progress
    held: dict[str, dict[str, Tensor]]


def begin(resolved: Resolved, stage: Stage, source: Source | None = None) -> State:
    """The initial state of a stage's network, in main memory, from the source or the seed."""
    resolved = resolved.as_in(stage)
    model = build(resolved)
    weights = dict(model.named_parameters())
    moments = zero_moments(stage.optimizer, model_weights(resolved), weights)
    if source:
        move(source.places, source.tensors, weights)
        if source.moments:
            move(source.places.moments(moments), source.moments, moments)
    return State(model, moments, Progress(), {})


def restore(checkpoint: checkpoints.Checkpoint, resolved: Resolved) -> State:
    """The state of a verified checkpoint, in main memory."""
    folder = checkpoint.folder
    progress = Progress.of(checkpoint.progress)
    trained = resolved.stage_after(checkpoint.step)
    resolved = resolved.as_in(trained)
    table = model_weights(resolved)
    of_weights = {weight.name: weight.shape for weight in table}
    of_moments = {n: weight.shape for n, weight in moments_of(trained.optimizer, table).items()}
    weights = checkpoints.load(folder / checkpoints.WEIGHTS, of_weights)
    moments = checkpoints.load(folder / checkpoints.OPTIMIZER, of_moments)
    model = build(resolved, "meta")
    model.load_state_dict(weights, assign=True)
    shapes_of = {method.holds.file: of_weights for method in trained.methods if method.holds}
    shapes_of = {file: shapes for file, shapes in shapes_of.items() if is_file(folder / file)}
    shapes_of |= files(resolved.stage_at(progress.step), progress.step)
    held = {file: checkpoints.load(folder / file, shapes) for file, shapes in shapes_of.items()}
    return State(model, moments, progress, held)
