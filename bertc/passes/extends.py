"""The pass that merges the base a spec extends, and lets the command line win over stages."""

from dataclasses import replace

from bertc.diagnostics import Diagnostics
from bertc.ir.program import Given, Program, StageGiven


def extends(program: Program, diagnostics: Diagnostics) -> Program:
    """Settings of the base hold unless the program gives its own; its stages replace the base's.

    ``extends bert-base  layers=6`` is bert-base with six layers. What the program writes outside
    its stages also wins over the stages of the base, and ``--set`` over every stage:
    ``extends bert-base  seq=64`` has two stages with rows of 64 tokens.
    """
    from_command_line = {n for n, g in program.settings.items() if g.origin.kind == "set"}
    stages = _without(program.stages, from_command_line)
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
        stages=stages or _without(base.stages, set(program.settings)),
    )


def _without(stages: tuple[StageGiven, ...], overruled: set[str]) -> tuple[StageGiven, ...]:
    return tuple(
        replace(stage, settings={n: g for n, g in stage.settings.items() if n not in overruled})
        for stage in stages
    )
