"""A spec's text to its programs: loaded, given steps for its budget, and through every pass."""

from collections.abc import Sequence

from bertc.base.diagnostics import DataError, Diagnostics, MissingInputError, UsageError
from bertc.check import passes
from bertc.check.equal import equalise
from bertc.check.facts import facts
from bertc.check.facts.counts import add_text_counts
from bertc.check.facts.examples import read_files
from bertc.check.facts.networks import compare_init
from bertc.check.facts.texts import look_at_text
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Given, Program
from bertc.lang import SpecLocation, load
from bertc.lang.load import Written, read_spec
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
