"""A spec's text to its programs: loaded, given steps for its budget, and through every pass.

``steps=equal(...)`` is made a number of steps: as many as a budget of FLOPs or time has room for.
The points of a grid get the same budget, that of the first one or a stated one. Loads no torch.
"""

import math
from collections.abc import Callable, Sequence

from bertc.base.diagnostics import DataError, Diagnostics, MissingInputError, UsageError, several
from bertc.check import passes
from bertc.check.facts import facts
from bertc.check.facts.counts import add_text_counts
from bertc.check.facts.networks import compare_init
from bertc.check.facts.texts import look_at_text, read_files, row_lengths
from bertc.cost import estimate
from bertc.cost.units import duration_text, flops_text
from bertc.ir.learning.schedule import Equal, Flops, Hours
from bertc.ir.program import Complete, Given, Origin, Program, Resolved
from bertc.lang import SpecLocation, Written, load, read_spec
from bertc.lang.read.scan import MOST_MISTAKES


def compile_spec(
    spec: str | SpecLocation | Written | Program,
    overrides: Sequence[str],
    diagnostics: Diagnostics,
    *,
    searched: bool = False,
    sparing: bool = False,
) -> list[Complete]:
    """Every program of a spec with all its settings, each with its origin.

    Errors go to ``diagnostics``; after those of a text no other file is read. ``searched``: as
    ``lang.load``. ``sparing``: text is not read to count its epochs and words, unless it is little.
    """
    if isinstance(spec, Program):
        programs = [spec]
    else:
        _refuse_empty(spec)
        programs = load(spec, overrides, diagnostics, searched=searched)
    if diagnostics.found and not isinstance(spec, Program):
        return [passes.complete(program, diagnostics) for program in programs]
    programs = [facts(program, diagnostics) for program in equalise(programs, diagnostics)]
    too_much = set[str]()
    programs = [add_text_counts(p, diagnostics, sparing, too_much) for p in programs]
    return [passes.complete(program, diagnostics) for program in programs]


def points(
    spec: str | SpecLocation | Written | Program,
    overrides: Sequence[str] = (),
    diagnostics: Diagnostics | None = None,
    *,
    sparing: bool = False,
) -> tuple[Resolved, ...]:
    """Every program of a spec, one per point of a grid; overrides read ``key=value``.

    Remarks on valid settings go to ``diagnostics``, if given. ``sparing``: as ``compile_spec``.
    """
    findings = diagnostics or Diagnostics()
    finished = compile_spec(spec, overrides, findings, sparing=sparing)
    findings.raise_if_any()
    programs = tuple(passes.assemble(program) for program in finished)
    if diagnostics is not None:
        _remark_own_layouts(finished, programs, diagnostics)
    return programs


def _remark_own_layouts(
    finished: Sequence[Complete], programs: Sequence[Resolved], diagnostics: Diagnostics
) -> None:
    """Remark on networks that no layout of transformers fits, once for points with the same."""
    from bertc.hub.leaving.target import remark_own_layout

    seen = set[object]()
    for program, resolved in zip(finished, programs, strict=True):
        networks = {id(s.encoder): (s.encoder, s.objective) for s in resolved.stages}
        methods = (method for stage in program.stages for method in stage.methods)
        key = resolved.vocabulary, *networks.values(), *(m for m in methods if m.not_exported)
        if key not in seen:
            seen.add(key)
            remark_own_layout(program, resolved, diagnostics)


def check_spec(
    spec: str | SpecLocation | Written, overrides: Sequence[str], diagnostics: Diagnostics
) -> tuple[Resolved, ...]:
    """The programs of a spec, those at both ends of each range, with their files checked.

    Files of tasks are read, of text the beginnings. Remarks go to ``diagnostics``.
    """
    _refuse_empty(spec)
    written = spec if isinstance(spec, Written) else read_spec(spec, overrides, diagnostics)
    try:
        finished = compile_spec(written, (), diagnostics, searched=written.has_ranges, sparing=True)
    except (MissingInputError, DataError):  # of one file; there may be more
        for point in load(written, (), Diagnostics(), searched=written.has_ranges):
            objectives = (b["objective"] for b in point.blocks if "objective" in b)
            read_files(objectives, diagnostics)
        diagnostics.raise_if_any()
        raise
    for program in finished:
        if len(diagnostics.found) < MOST_MISTAKES:
            passes.missing_inputs(program, diagnostics)
    diagnostics.raise_if_any()
    programs = list[Resolved]()
    for program in finished:
        look_at_text(program, diagnostics)
        stages = program.stages
        read_files((Given(s.objective, s.origins["objective"]) for s in stages), diagnostics)
        diagnostics.raise_if_any()
        resolved = passes.assemble(program)
        compare_init(resolved)
        programs.append(resolved)
    _remark_own_layouts(finished, programs, diagnostics)
    return tuple(programs)


def _refuse_empty(spec: object) -> None:
    if isinstance(spec, str) and not spec.strip():
        raise UsageError("the spec is empty", help="a file, a shipped spec's name, or a text")


STEPS = "steps"
SECONDS = 3600
TRIES = 50
"""Most estimates of one number of steps; a few do, since figures grow with it nearly evenly."""
MOST_ESTIMATED = 1_250
"""Layers of all stages of all points, 3 more a stage, that are estimated: two seconds of them."""


def equalise(programs: Sequence[Program], diagnostics: Diagnostics) -> list[Program]:
    """The programs with a number of steps for each ``steps=equal(...)``."""
    first: dict[Equal, float] = {}
    return [_equalise_one(program, first, len(programs), diagnostics) for program in programs]


def _equalise_one(
    program: Program, first: dict[Equal, float], points: int, diagnostics: Diagnostics
) -> Program:
    setting = _find_equal(program)
    if setting is None:
        return program
    equal: Equal = setting.value
    settled = set_steps(program, equal.steps) if equal.steps else program
    resolved = _try(settled)
    if resolved is None:  # its mistakes are reported when the passes see it
        return settled
    if points * sum(3 + stage.layers for stage in resolved.stages) > MOST_ESTIMATED:
        stages, layers = len(resolved.stages), resolved.encoder.depth
        message = "steps=equal(...) is found by estimates, and there are too many for "
        message += f"{points:,} specs of {several(stages, 'stage')} with {several(layers, 'layer')}"
        help = "steps as a number, or fewer alternatives"
        diagnostics.error("E113", message, setting.origin.span, help=help)
        return settled
    lengths = dict[int, tuple[int, ...]]()  # by stages, of which fewer steps may have fewer

    def figure(resolved: Resolved) -> float:
        if (stages := len(resolved.stages)) not in lengths:
            (lengths[stages],) = row_lengths([resolved])
        cost = estimate(resolved, equal.device, lengths=lengths[stages])
        by_time = equal.budget == "time" or isinstance(equal.budget, Hours)
        return cost.time.seconds_total if by_time else cost.flops.train_total

    match equal.budget:
        case Flops(flops=flops):
            most = flops
        case Hours(hours=hours):
            most = hours * SECONDS
        case _:
            most = first.setdefault(equal, figure(resolved))

    def of(steps: int) -> float:
        resolved = _try(set_steps(program, steps))
        return figure(resolved) if resolved else math.inf

    steps = most_steps(of, most, resolved.steps)
    if steps == 1 and (first_step := of(1)) > most:
        _no_step(setting, equal, first_step, diagnostics)
        return settled
    return set_steps(program, steps, setting)


def _try(program: Program) -> Resolved | None:
    findings = Diagnostics()
    known = add_text_counts(facts(program, findings), findings, sparing=True, too_much=set())
    finished = passes.complete(known, findings)
    return None if findings.found else passes.assemble(finished)


def most_steps(figure: Callable[[int], float], most: float, guess: int = 1000) -> int:
    """The most steps whose figure is within ``most``; 1 if none is."""
    steps, least, above = max(1, guess), 0, None
    for _ in range(TRIES):
        if (value := figure(steps)) <= most:
            least = steps
        else:
            above = steps
        if above == least + 1:
            break
        if value == math.inf:  # no program: it is not known how far from one
            steps = max(least + 1, (least + steps) // 2)
        else:
            steps = max(least + 1, int(steps * (most / value)))
        if above is not None and steps >= above:
            steps = above - 1
    return max(1, least)


def set_steps(program: Program, steps: int, instead_of: Given | None = None) -> Program:
    """The program with this number of steps, shared by its stages as with ``--set steps``."""
    span = instead_of.origin.span if instead_of else None
    return program.with_settings({STEPS: Given(steps, Origin("set", span))})


def _find_equal(program: Program) -> Given | None:
    """The ``steps=equal(...)`` of a program or of what it extends; None without one."""
    setting = program.settings.get(STEPS)
    if setting is None:
        return _find_equal(program.base) if program.base else None
    return setting if isinstance(setting.value, Equal) else None


def _no_step(setting: Given, equal: Equal, first_step: float, diagnostics: Diagnostics) -> None:
    number, unit, text = first_step, "flops", flops_text(first_step)
    if isinstance(equal.budget, Hours) or equal.budget == "time":
        number, unit, text = first_step / SECONDS, "h", duration_text(first_step)
    room = f"steps=equal({1.1 * number:.2g} {unit})"
    message = f"the budget has no room for a step, which takes {text}"
    diagnostics.error(
        "E119", message, setting.origin.span, label=f"{number:.3g} {unit} is the least", help=room
    )
