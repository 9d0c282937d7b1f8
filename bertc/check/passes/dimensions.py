"""Constant and derived defaults of settings."""

import math
from collections.abc import Callable

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.bodies import printed
from bertc.check.passes.settings import stages
from bertc.ir.network.head import AdaptiveHead, LinearHead, TransformHead
from bertc.ir.network.positions import LearnedPositions, NoPositions
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import layout_of
from bertc.ir.program.settings import Settings, default_source
from bertc.ir.program.written import Given, Origin, Program

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
        program = stages.settled(program, derived)
    return program.model_copy(update={"program": printed(program)})


def languages(program: Complete) -> tuple[str, ...]:
    """The languages of all stages' data, sorted; text without a language adds none."""
    names = {name for s in program.stages for share in s.data for name in share.corpus.languages}
    return tuple(sorted(names - {""}))


def _head(program: Complete) -> TransformHead | LinearHead | AdaptiveHead:
    if program.table.kind == "adaptive":
        return AdaptiveHead()
    forward = all(stages.reads_on(stage.objective) for stage in program.stages)
    return LinearHead() if forward else TransformHead()


def _now_and_then(program: Complete) -> int:
    """Default interval in steps: a tenth of the run, a third if it has tasks only, at most 1000."""
    tasks = all(stages.has_tasks(stage.objective) for stage in program.stages)
    return min(1000, math.ceil(program.total_steps / (3 if tasks else 10)))


DERIVED: tuple[dict[str, Callable[[Complete], object]], ...] = (
    {"heads": lambda p: max(1, p.hidden // 64)},
    {
        "head_dim": lambda p: max(1, p.hidden // stages.layer_values(p.heads, 1)[0]),
        "ffn": lambda p: 4 * p.hidden,
        "embedding": lambda p: p.hidden,
        "languages": languages,
        "positions": lambda p: (
            NoPositions() if p.attention.distances else LearnedPositions(rows=p.longest_seq)
        ),
        "pooler": lambda p: any(t.objective.states.pooled for s in p.stages for t in s.objective),
        "head": _head,
        "format": lambda p: stages.default_format(p.objective, p.pack),
        "layout": lambda p: layout_of(p.recipe),
        "save_every": _now_and_then,
        "eval_every": _now_and_then,
        "log_every": lambda p: max(1, min(100, p.total_steps // 100)),
    },
)
"""The formula of each derived setting, from constant defaults and what groups before it derive."""
