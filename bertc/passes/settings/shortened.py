"""Settings of the stages of a program after layers were removed, or the token table factorised."""

from typing import get_args

from bertc.ir.changing.pruning import NOTHING, Layers, Rank
from bertc.ir.network.sharing import SharedPart, ShareMap, ShareNone, Sharing, owners_left
from bertc.ir.network.table import FactorisedTable, WholeTable
from bertc.ir.program.complete import Complete, StageSettings
from bertc.passes.settings.layers import layer_values, owners


def shortened(program: Complete) -> Complete:
    """Every stage with the depth, widths and sharing of what is left, and with its token table.

    ``layers=12 stage "a" { } stage "b" { prune=layers(50%) }`` has 6 layers in b. What a stage
    cannot remove stays, and is reported by a check.
    """
    left: tuple[int, ...] = ()
    table = program.table
    stages = list[StageSettings]()
    for place, stage in enumerate(program.stages):
        prune = stage.prune
        if isinstance(prune, Layers | Rank) and place and "prune" not in stage.own:
            stage = stage.model_copy(update={"prune": NOTHING})  # a run removes them once
        elif isinstance(prune, Layers) and not prune.open:
            numbers = left or tuple(range(stage.layers))
            counted = prune.model_copy(update={"depth": len(numbers)})
            stage = stage.model_copy(update={"prune": counted})
            if counted.misfit:
                rest = program.stages[place + 1 :]
                return program.model_copy(update={"stages": (*stages, stage, *rest)})
            left = tuple(numbers[layer] for layer in counted.kept)
        elif isinstance(prune, Rank) and isinstance(table, WholeTable):
            table = FactorisedTable(rank=prune.width, scaled=table.scaled)
        stage = stage.model_copy(update={"table": table})
        stages.append(_of_layers(stage, left) if left else stage)
    return program.model_copy(update={"stages": tuple(stages)})


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
