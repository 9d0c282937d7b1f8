"""Settings of the stages of a program after layers were removed."""

from collections.abc import Sequence
from typing import get_args

from bertc.check.passes.settings.layers import layer_values, owners
from bertc.ir.changing.pruning import NOTHING, Layers
from bertc.ir.network.sharing import SharedPart, ShareMap, ShareNone, Sharing, owners_left
from bertc.ir.program.complete import Complete, StageSettings


def shortened(program: Complete) -> Complete:
    """Every stage with the depth, widths and sharing of what is left.

    ``layers=12 stage "a" { } stage "b" { prune=layers(50%) }`` has 6 layers in b. With ``every``
    each round is a stage. What a stage cannot remove stays, and is reported by a check.
    """
    left: tuple[int, ...] = ()
    stages = list[StageSettings]()
    for place, stage in enumerate(program.stages):
        if isinstance(stage.prune, Layers) and place and "prune" not in stage.own:
            stage = stage.model_copy(update={"prune": NOTHING})  # a run removes them once
        for each in _rounds(stage, len(left) or stage.layers):
            prune = each.prune
            if isinstance(prune, Layers):
                if prune.misfit:
                    rest = program.stages[place + 1 :]
                    return program.model_copy(update={"stages": (*stages, each, *rest)})
                numbers = left or tuple(range(each.layers))
                left = tuple(numbers[layer] for layer in prune.kept)
            stages.append(_of_layers(each, left) if left else each)
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
        update = {"prune": kind, "name": f"{stage.name}-{kind.left}", "steps": end - begin}
        rounds.append(stage.model_copy(update={**update, "since": begin}))
    return rounds


def _of_layers(stage: StageSettings, left: tuple[int, ...]) -> StageSettings:
    """The settings of a stage with these layers alone; one that writes another depth has that."""
    if "layers" in stage.own and stage.layers != len(left):
        return stage
    update: dict[str, object] = {"layers": len(left), "share": _sharing(stage.share, left)}
    for name in ("heads", "ffn"):
        values = layer_values(getattr(stage, name), max(left) + 1)
        if isinstance(getattr(stage, name), tuple):
            update[name] = tuple(values[layer] for layer in left)
    return stage.model_copy(update=update)


def _sharing(scheme: Sharing, left: tuple[int, ...]) -> Sharing:
    """The scheme among the layers that are left."""
    if isinstance(scheme, ShareNone):
        return scheme
    depth = max(left) + 1
    attention, ffn = (
        owners_left(owners(scheme, part, depth), left) for part in get_args(SharedPart)
    )
    return ShareMap(attention=attention, ffn=ffn)
