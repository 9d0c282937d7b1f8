"""Merging of the base that a spec extends, and precedence of ``--set``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bertc.base.diagnostics import Diagnostic, Diagnostics
from bertc.check.passes.lengths import shares
from bertc.check.passes.settings import has_tasks
from bertc.ir.base import Tokens, once
from bertc.ir.changing.growth import TEACHER, FromOther
from bertc.ir.learning.schedule import Epochs, Equal, Hours, Words
from bertc.ir.program.settings import STAGE_SETTINGS
from bertc.ir.written import Given, Program, StageGiven

TEXT = ("data", "smoothing", "mixing")
"""Stage settings that say what a vocabulary is learned from, and what languages there are."""


def extends(program: Program, diagnostics: Diagnostics) -> Program:
    """Merge a base: settings of the program win, and its stages replace those of the base.

    ``extends bert-base  layers=6`` becomes ``layers=6 hidden=768 ...``. Settings outside stages
    also override the base's stages, and ``--set`` overrides every stage. ``steps`` is the length of
    the run: ``extends bert-base  steps=1000`` has stages of 900 and 100 steps, 9 : 1 as the base.
    A task takes the network of a base that learns from text, not how that is trained.
    """
    program = _without_budgets(program, diagnostics)
    overriding = {n: g for n, g in program.settings.items() if g.origin.kind == "set"}
    base, inherited = None, dict[str, Given]()
    if program.base is not None:
        base, inherits, mistakes = _merge_base(program.base, _learns_task(program.settings))
        inherited |= inherits
        for mistake in mistakes:
            diagnostics.record(mistake)
    if _have_steps(program.stages):
        inherited.pop("steps", None)  # it was the length of other stages
        overriding |= {n: g for n, g in program.settings.items() if n == "steps"}
    settings = {**inherited, **program.settings}
    stages = _override_stages(program.stages, settings, overriding)
    if base is None:
        return replace(program, stages=stages)
    stages = stages or _override_stages(base.stages, base.settings, program.settings)
    return Program(name=program.name, settings=settings, stages=stages)


@once
def _merge_base(
    base: Program, for_task: bool
) -> tuple[Program, Mapping[str, Given], Sequence[Diagnostic]]:
    """The base merged with its own, what is inherited of it, and mistakes: for all points."""
    findings = Diagnostics()
    base = extends(base, findings)
    blocks = base.blocks
    if for_task and any("objective" in b for b in blocks) and not any(map(_learns_task, blocks)):
        base = _network_of(base)
    inherited = {
        name: Given(setting.value, replace(setting.origin, kind="extends", source=base.name))
        for name, setting in base.settings.items()
    }
    return base, inherited, tuple(findings.found)


def _without_budgets(program: Program, diagnostics: Diagnostics) -> Program:
    """The program without ``steps=equal(...)``; one in a stage is reported."""
    budgets = [b["steps"] for b in program.blocks if "steps" in b]
    budgets = [steps for steps in budgets if isinstance(steps.value, Equal)]
    for steps in budgets:
        if steps is not program.settings.get("steps"):
            message = "equal(...) is the length of a whole run, not of a stage"
            diagnostics.error("E118", message, steps.origin.span, help="steps=1000")
    if not budgets:
        return program
    return program.map_blocks(lambda block: {n: g for n, g in block.items() if g not in budgets})


def _learns_task(settings: Mapping[str, Given]) -> bool:
    objective = settings.get("objective")
    return objective is not None and has_tasks(objective.value)


def _network_of(base: Program) -> Program:
    """The network of a base, as deep as its last stage has it, and the text of its vocabulary."""
    last = base.stages[-1].settings if base.stages else {}
    settings = {**base.settings, **last}
    of_network = {n: g for n, g in settings.items() if n in TEXT or n not in STAGE_SETTINGS}
    if "layers" in settings:
        of_network["layers"] = settings["layers"]
    init = settings["init"].value if "init" in settings else None
    if isinstance(init, FromOther) and init.path == TEACHER:
        del of_network["init"]  # the teacher is one of its stages
    of_network.pop("generator", None)  # which is of text too
    return Program(name=base.name, settings=of_network)


def _override_stages(
    stages: tuple[StageGiven, ...], run: Mapping[str, Given], settings: Mapping[str, Given]
) -> tuple[StageGiven, ...]:
    """The stages of ``run`` without what ``settings`` override; ``steps`` is shared out."""
    overruled = set(settings)
    timed = "steps" in settings and isinstance(settings["steps"].value, Hours)
    if "steps" in settings and _have_steps(stages) and not timed:
        # In the old proportions, and at least one step each.
        total, origin = settings["steps"].value, settings["steps"].origin
        unit: Any = type(total) if isinstance(total, Tokens | Epochs | Words) else None
        amount = getattr(total, unit.number_unit) if unit else total
        before = shares(stages, run, tokens=unit is not None)
        first, reached, shared = 0, 0.0, []
        for following, stage, share in zip(range(len(stages))[::-1], stages, before, strict=True):
            reached += share
            end = amount * reached / sum(before)
            if unit is not Epochs:
                end = max(first + 1, min(amount - following, round(end)))
            part = unit(**{unit.number_unit: end - first}) if unit else end - first
            shared.append(stage.with_settings({"steps": Given(part, origin)}))
            first = end
        stages, overruled = tuple(shared), overruled - {"steps"}
    return tuple(
        stage.having({n: g for n, g in stage.settings.items() if n not in overruled})
        if overruled.intersection(stage.settings)
        else stage
        for stage in stages
    )


def _have_steps(stages: Sequence[StageGiven]) -> bool:
    """True if every stage says its length, and none in time, which is refused later."""
    lengths = [stage.settings.get("steps") for stage in stages]
    return bool(stages) and all(steps and not isinstance(steps.value, Hours) for steps in lengths)
