"""Merging of the base that a spec extends, and precedence of ``--set``."""

from collections.abc import Mapping
from dataclasses import replace

from bertc.diagnostics import Diagnostics
from bertc.ir.base import Tokens
from bertc.ir.program.written import Given, Program, StageGiven
from bertc.passes.lengths import shares


def extends(program: Program, diagnostics: Diagnostics) -> Program:
    """Merge a base: settings of the program win, and its stages replace those of the base.

    ``extends bert-base  layers=6`` becomes ``layers=6 hidden=768 ...``. Settings outside stages
    also override the base's stages, and ``--set`` overrides every stage: ``extends bert-base
    seq=64`` has two stages with rows of 64 tokens. ``steps`` is the length of the run: ``extends
    bert-base  steps=1000`` has stages of 900 and 100 steps, in the base's ratio of 9 : 1.
    """
    from_command_line = {n: g for n, g in program.settings.items() if g.origin.kind == "set"}
    base = extends(program.base, diagnostics) if program.base else None
    inherited = {} if base is None else _from(base)
    written = {
        name: given.instead_of(inherited[name]) if name in inherited else given
        for name, given in program.settings.items()
    }
    settings = {**inherited, **written}
    stages = _overruled(program.stages, settings, from_command_line)
    if base is None:
        return replace(program, stages=stages)
    stages = stages or _overruled(base.stages, base.settings, program.settings)
    return Program(name=program.name, settings=settings, stages=stages)


def _from(base: Program) -> dict[str, Given]:
    """The settings of a base, as those of a program that extends it."""
    return {
        name: Given(given.value, replace(given.origin, kind="extends", source=base.name))
        for name, given in base.settings.items()
    }


def _overruled(
    stages: tuple[StageGiven, ...], run: Mapping[str, Given], settings: Mapping[str, Given]
) -> tuple[StageGiven, ...]:
    """The stages without settings that ``settings`` override; ``steps`` is split in proportion.

    ``run`` are the settings of the run that the stages belong to.
    """
    overruled = set(settings)
    if "steps" in settings and all("steps" in stage.settings for stage in stages):
        stages = _shared_out(stages, run, settings["steps"])
        overruled -= {"steps"}
    return tuple(
        replace(stage, settings={n: g for n, g in stage.settings.items() if n not in overruled})
        for stage in stages
    )


def _shared_out(
    stages: tuple[StageGiven, ...], run: Mapping[str, Given], steps: Given
) -> tuple[StageGiven, ...]:
    """The stages with ``steps`` in total, in the old proportions and at least one step each."""
    whole, in_tokens = steps.value, isinstance(steps.value, Tokens)
    amount = whole.tokens if in_tokens else whole
    before = shares(stages, run, in_tokens)
    first, reached, shared = 0, 0, []
    for stage, share in zip(stages, before, strict=True):
        reached += share
        end = max(first + 1, round(amount * reached / sum(before)))
        part = Tokens(tokens=end - first) if in_tokens else end - first
        settings = {**stage.settings, "steps": Given(part, steps.origin)}
        shared.append(replace(stage, settings=settings))
        first = end
    return tuple(shared)
