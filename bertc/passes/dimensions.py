"""The pass that computes what follows from other settings."""

import math
from typing import Any

from bertc.diagnostics import Diagnostics
from bertc.ir.network.head import AdaptiveHead, LinearHead, TransformHead
from bertc.ir.network.positions import LearnedPositions, NoPositions
from bertc.ir.program.resolved import layout_of
from bertc.ir.program.settings import default_source
from bertc.ir.program.written import Given, Origin, Program
from bertc.passes.stages import (
    default_format,
    has_tasks,
    reads_on,
    reads_pooler,
    stage_views,
)


def dimensions(program: Program, diagnostics: Diagnostics) -> Program:
    """Derive every setting that is still open.

    ``hidden=256`` gives ``heads=4 head_dim=64 ffn=1024 embedding=256 ...``.
    """
    for setting, compute in (
        ("heads", lambda p: max(1, _value(p, "hidden") // 64)),
        ("head_dim", lambda p: max(1, _value(p, "hidden") // _first(_value(p, "heads")))),
        ("ffn", lambda p: 4 * _value(p, "hidden")),
        ("embedding", lambda p: _value(p, "hidden")),
        ("languages", languages),
        ("positions", _positions),
        ("pooler", lambda p: any(reads_pooler(v.value("objective")) for v in stage_views(p))),
        ("head", _head),
        ("format", lambda p: default_format(_value(p, "objective"), _value(p, "pack"))),
        ("layout", lambda p: layout_of(_value(p, "recipe"))),
        ("save_every", _now_and_then),
        ("eval_every", _now_and_then),
        ("log_every", lambda p: max(1, min(100, total_steps(p) // 100))),
    ):
        if setting not in program.settings:
            origin = Origin("derived", source=default_source(setting))
            program = program.with_settings({setting: Given(compute(program), origin)})
    return program


def _now_and_then(program: Program) -> int:
    """A task is short, and has been learned after a few passes."""
    tasks = all(has_tasks(view.value("objective")) for view in stage_views(program))
    return min(1000, math.ceil(total_steps(program) / (3 if tasks else 10)))


def total_steps(program: Program) -> int:
    """Optimiser steps of all stages."""
    return sum(stage.value("steps") for stage in stage_views(program))


def longest_seq(program: Program) -> int:
    """The longest row of any stage, in tokens."""
    return max(int(stage.value("seq")) for stage in stage_views(program))


def languages(program: Program) -> tuple[str, ...]:
    """The languages that any stage reads, sorted; text without one is of none."""
    stages = stage_views(program)
    found = {name for s in stages for share in s.value("data") for name in share.corpus.languages}
    return tuple(sorted(found - {""}))


def _positions(program: Program) -> LearnedPositions | NoPositions:
    if _value(program, "attention").knows_distances:
        return NoPositions()
    return LearnedPositions(rows=longest_seq(program))


def _head(program: Program) -> TransformHead | LinearHead | AdaptiveHead:
    if _value(program, "table").kind == "adaptive":
        return AdaptiveHead()
    return LinearHead() if reads_on(stage_views(program)[0].value("objective")) else TransformHead()


def _value(program: Program, setting: str) -> Any:
    return program.settings[setting].value


def _first(number: int | tuple[int, ...]) -> int:
    return number if isinstance(number, int) else number[0]
