"""Merging of the base that a spec extends, and precedence of ``--set``."""

from collections.abc import Mapping
from dataclasses import replace

from bertc.diagnostics import Diagnostics
from bertc.ir.program.written import Given, Program, StageGiven


def extends(program: Program, diagnostics: Diagnostics) -> Program:
    """Merge a base: settings of the program win, and its stages replace those of the base.

    ``extends bert-base  layers=6`` becomes ``layers=6 hidden=768 ...``. Settings outside stages
    also override the base's stages, and ``--set`` overrides every stage: ``extends bert-base
    seq=64`` has two stages with rows of 64 tokens. ``steps`` is the length of the run: ``extends
    bert-base  steps=1000`` has stages of 900 and 100 steps, in the base's ratio of 9 : 1.
    """
    from_command_line = {n: g for n, g in program.settings.items() if g.origin.kind == "set"}
    stages = _overruled(program.stages, from_command_line)
    if program.base is None:
        return replace(program, stages=stages)
    base = extends(program.base, diagnostics)
    inherited = {
        name: Given(given.value, replace(given.origin, kind="extends", source=base.name))
        for name, given in base.settings.items()
    }
    settings = {
        name: given.instead_of(inherited[name]) if name in inherited else given
        for name, given in program.settings.items()
    }
    return Program(
        name=program.name,
        settings={**inherited, **settings},
        stages=stages or _overruled(base.stages, program.settings),
    )


def _overruled(
    stages: tuple[StageGiven, ...], settings: Mapping[str, Given]
) -> tuple[StageGiven, ...]:
    """The stages without settings that ``settings`` override; ``steps`` is split in proportion."""
    overruled = set(settings)
    if "steps" in settings and all("steps" in stage.settings for stage in stages):
        stages = _shared_out(stages, settings["steps"])
        overruled -= {"steps"}
    return tuple(
        replace(stage, settings={n: g for n, g in stage.settings.items() if n not in overruled})
        for stage in stages
    )


def _shared_out(stages: tuple[StageGiven, ...], steps: Given) -> tuple[StageGiven, ...]:
    """The stages with ``steps`` in total, in the old proportions and at least one step each."""
    before = sum(stage.settings["steps"].value for stage in stages)
    first, reached, shared = 0, 0, []
    for stage in stages:
        reached += stage.settings["steps"].value
        end = max(first + 1, round(steps.value * reached / before))
        share = Given(end - first, steps.origin)
        shared.append(replace(stage, settings={**stage.settings, "steps": share}))
        first = end
    return tuple(shared)
