"""Settings of the stages of a program after layers were removed."""

from collections.abc import Sequence
from typing import get_args

from bertc.check.passes.settings.layers import layer_values, owners
from bertc.ir.changing.pruning import NOTHING, Layers
from bertc.ir.network.sharing import SharedPart, ShareMap, ShareNone, Sharing, owners_left
from bertc.ir.program.complete import Complete, StageSettings


def shortened(program: Complete) -> Complete:
    """Every stage with the depth, widths and sharing of what is left.

    With ``every`` each round is a stage. What a stage cannot remove stays: a check reports it.
    """
    layers: tuple[int, ...] = ()
    stages = list[StageSettings]()
    for place, stage in enumerate(program.stages):
        if isinstance(stage.prune, Layers) and place and "prune" not in stage.own:
            stage = stage.model_copy(update={"prune": NOTHING})  # a run removes them once
        for one_round in _rounds(stage, len(layers) or stage.layers):
            prune = one_round.prune
            if isinstance(prune, Layers):
                if prune.misfit:
                    rest = program.stages[place + 1 :]
                    return program.model_copy(update={"stages": (*stages, one_round, *rest)})
                numbers = layers or tuple(range(one_round.layers))
                layers = tuple(numbers[layer] for layer in prune.kept)
            stages.append(_of_layers(one_round, layers) if layers else one_round)
    return program.model_copy(update={"stages": tuple(stages)})


def _rounds(stage: StageSettings, depth: int) -> Sequence[StageSettings]:
    """A stage for each round of what it removes, named after what is left, as long as any other."""
    if not isinstance(stage.prune, Layers):
        return (stage,)
    prune = stage.prune.model_copy(update={"depth": depth})
    if prune.misfit or not 1 < prune.rounds <= stage.steps:
        return (stage.model_copy(update={"prune": prune}),)
    ends = [number * stage.steps // prune.rounds for number in range(prune.rounds + 1)]
    rounds = []
    for kind, begin, end in zip(prune.in_rounds, ends, ends[1:], strict=False):
        update = {"prune": kind, "name": f"{stage.name}-{len(kind.kept)}", "steps": end - begin}
        rounds.append(stage.model_copy(update={**update, "since": begin}))
    return rounds


def _of_layers(stage: StageSettings, layers: tuple[int, ...]) -> StageSettings:
    """The settings of a stage with these layers alone; one that writes another depth has that."""
    if "layers" in stage.own and stage.layers != len(layers):
        return stage
    update: dict[str, object] = {"layers": len(layers), "share": _sharing(stage.share, layers)}
    for name in ("heads", "ffn"):
        values = layer_values(getattr(stage, name), max(layers) + 1)
        if isinstance(getattr(stage, name), tuple):
            update[name] = tuple(values[layer] for layer in layers)
    return stage.model_copy(update=update)


def _sharing(scheme: Sharing, layers: tuple[int, ...]) -> Sharing:
    if isinstance(scheme, ShareNone):
        return scheme
    depth = max(layers) + 1
    attention, ffn = (
        owners_left(owners(scheme, part, depth), layers) for part in get_args(SharedPart)
    )
    return ShareMap(attention=attention, ffn=ffn)
