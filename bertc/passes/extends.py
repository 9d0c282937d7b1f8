"""The pass that merges the base a spec extends, and lets the command line win over stages."""

from collections.abc import Mapping
from dataclasses import replace

from bertc.diagnostics import Diagnostics
from bertc.ir.program.written import Given, Program, StageGiven


def extends(program: Program, diagnostics: Diagnostics) -> Program:
    """Settings of the base hold unless the program gives its own; its stages replace the base's.

    ``extends bert-base  layers=6`` becomes ``layers=6 hidden=768 ...``. What the program writes
    outside its stages also wins over the stages of the base, and ``--set`` over every stage:
    ``extends bert-base  seq=64`` has two stages with rows of 64 tokens. ``steps`` is the length of
    the run: ``extends bert-base  steps=1000`` has stages of 900 and 100 steps, as 9 : 1 before.
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
    return Program(
        name=program.name,
        settings={**inherited, **program.settings},
        stages=stages or _overruled(base.stages, program.settings),
    )


def _overruled(
    stages: tuple[StageGiven, ...], settings: Mapping[str, Given]
) -> tuple[StageGiven, ...]:
    """The stages without what ``settings`` overrule; ``steps`` is shared out in proportion."""
    overruled = set(settings)
    if "steps" in settings and all("steps" in stage.settings for stage in stages):
        stages = _shared_out(stages, settings["steps"])
        overruled -= {"steps"}
    return tuple(
        replace(stage, settings={n: g for n, g in stage.settings.items() if n not in overruled})
        for stage in stages
    )


def _shared_out(stages: tuple[StageGiven, ...], steps: Given) -> tuple[StageGiven, ...]:
    """The stages with ``steps`` in all, each with its share of before and at least one."""
    before = sum(stage.settings["steps"].value for stage in stages)
    first, reached, shared = 0, 0, []
    for stage in stages:
        reached += stage.settings["steps"].value
        end = max(first + 1, round(steps.value * reached / before))
        own = Given(end - first, steps.origin)
        shared.append(replace(stage, settings={**stage.settings, "steps": own}))
        first = end
    return tuple(shared)
