"""Constant and derived defaults of settings, also of stages after layers were removed."""

import math
from collections.abc import Callable, Sequence
from typing import get_args

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.bodies import printed
from bertc.check.passes.settings.stages import (
    default_format,
    has_tasks,
    layer_values,
    owners,
    reads_on,
    settled,
)
from bertc.ir.changing.pruning import NOTHING, Layers
from bertc.ir.network.head import AdaptiveHead, LinearHead, TransformHead
from bertc.ir.network.positions import LearnedPositions, NoPositions
from bertc.ir.network.sharing import SharedPart, ShareMap, ShareNone, owners_left
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.resolved import layout_of
from bertc.ir.program.settings import Settings, default_source
from bertc.ir.program.written import Given, Origin, Program


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
    update: dict[str, object] = {"layers": len(layers)}
    if not isinstance(stage.share, ShareNone):
        every = (owners(stage.share, part, max(layers) + 1) for part in get_args(SharedPart))
        attention, ffn = (owners_left(of_part, layers) for of_part in every)
        update["share"] = ShareMap(attention=attention, ffn=ffn)
    for name in ("heads", "ffn"):
        values = layer_values(getattr(stage, name), max(layers) + 1)
        if isinstance(getattr(stage, name), tuple):
            update[name] = tuple(values[layer] for layer in layers)
    return stage.model_copy(update=update)


CONSTANT = {
    name: Given(field.default, Origin("default", source=default_source(name)))
    for name, field in Settings.model_fields.items()
    if not field.is_required()
}


def defaults(program: Program, diagnostics: Diagnostics) -> Program:
    """Give each unset setting its constant default; that of ``seq`` is at most the positions.

    ``hidden=256`` becomes ``hidden=256 layers=12 share=none ...``.
    """
    complete = program.with_settings({**CONSTANT, **program.settings})
    positions, seq = program.settings.get("positions"), complete.settings["seq"]
    room = positions.value.room if positions else None
    if room is not None and "seq" not in program.settings and room < seq.value:
        shorter = Given(room, Origin("derived", source="as many tokens as there are positions"))
        return complete.with_settings({"seq": shorter})
    return complete


def dimensions(program: Complete, diagnostics: Diagnostics) -> Complete:
    """Derive every setting that is still unset.

    ``hidden=256`` becomes ``hidden=256 heads=4 head_dim=64 ffn=1024 embedding=256 ...``.
    """
    for formulas in DERIVED:
        derived = {
            setting: Given(compute(program), Origin("derived", source=default_source(setting)))
            for setting, compute in formulas.items()
            if setting not in program.origins
        }
        program = settled(program, derived)
    return shortened(program.model_copy(update={"program": printed(program)}))


def languages(program: Complete) -> tuple[str, ...]:
    """The languages of all stages' data, sorted; text without a language adds none."""
    names = {name for s in program.stages for share in s.data for name in share.corpus.languages}
    return tuple(sorted(names - {""}))


def _positions(program: Complete) -> LearnedPositions | NoPositions:
    if program.attention.distances:
        return NoPositions()
    return LearnedPositions(rows=program.longest_seq)


def _head(program: Complete) -> TransformHead | LinearHead | AdaptiveHead:
    if program.table.kind == "adaptive":
        return AdaptiveHead()
    forward = all(reads_on(stage.objective) for stage in program.stages)
    return LinearHead() if forward else TransformHead()


def _now_and_then(program: Complete) -> int:
    """Default interval in steps: a tenth of the run, a third if it has tasks only, at most 1000."""
    tasks = all(has_tasks(stage.objective) for stage in program.stages)
    return min(1000, math.ceil(program.total_steps / (3 if tasks else 10)))


DERIVED: tuple[dict[str, Callable[[Complete], object]], ...] = (
    {"heads": lambda p: max(1, p.hidden // 64)},
    {
        "head_dim": lambda p: max(1, p.hidden // layer_values(p.heads, 1)[0]),
        "ffn": lambda p: 4 * p.hidden,
        "embedding": lambda p: p.hidden,
        "languages": languages,
        "positions": _positions,
        "pooler": lambda p: any(t.objective.states.pooled for s in p.stages for t in s.objective),
        "head": _head,
        "format": lambda p: default_format(p.objective, p.pack),
        "layout": lambda p: layout_of(p.recipe),
        "save_every": _now_and_then,
        "eval_every": _now_and_then,
        "log_every": lambda p: max(1, min(100, p.total_steps // 100)),
    },
)
"""The formula of each derived setting, from constant defaults and what groups before it derive."""
