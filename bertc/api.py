"""Python functions of the compiler, on a spec's text or on values.

Each imports what it needs when it runs, so that checking and estimating never load torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertc.diagnostics import Diagnostics, UsageError
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Program

if TYPE_CHECKING:
    from bertc.estimate import Convention, Estimate
    from bertc.inference.trained import Trained
    from bertc.nn import Model
    from bertc.runs.listing import Listing
    from bertc.starting.showing import Showing
    from bertc.syntax import SpecLocation, Tree
    from bertc.syntax.load import Written
    from bertc.train.beginning.tracking import Tracking
    from bertc.train.report import Report

Spec = str | Program | Resolved


def parse(text: str, name: str = "<spec>") -> Tree:
    """Parse a text to its tree.

    Raises:
        SpecError: with every mistake of syntax in the text.
    """
    from bertc import syntax

    diagnostics = Diagnostics()
    tree = syntax.parse(text, name, diagnostics)
    diagnostics.raise_if_any()
    return tree


def points(
    spec: str | SpecLocation | Program,
    overrides: Sequence[str] = (),
    diagnostics: Diagnostics | None = None,
) -> tuple[Resolved, ...]:
    """Every program of a spec: one, or one per point of a grid; overrides read ``key=value``.

    Remarks on valid settings go to ``diagnostics``, if given.

    Raises:
        SpecError: with every mistake found in any of them.
        UsageError: if the text is empty.
    """
    from bertc import passes

    findings = diagnostics or Diagnostics()
    complete = compile_spec(spec, overrides, findings)
    findings.raise_if_any()
    found = tuple(passes.assemble(program) for program in complete)
    if diagnostics is not None:
        from bertc.interop.foreseen import remark_own_layout

        for program, resolved in zip(complete, found, strict=True):
            passes.tagged_text(program, diagnostics)
            remark_own_layout(program, resolved, diagnostics)
    return found


def check(
    spec: str | SpecLocation,
    overrides: Sequence[str] = (),
    diagnostics: Diagnostics | None = None,
) -> int:
    """Check a spec and the files that it names; the number of programs that were checked.

    As ``checked``.
    """
    return len(checked(spec, overrides, diagnostics or Diagnostics()))


def checked(
    spec: str | SpecLocation, overrides: Sequence[str], diagnostics: Diagnostics
) -> tuple[Resolved, ...]:
    """The programs of a spec, with the files that they name checked.

    Of a spec with ranges those at both ends of each are.
    The files of tasks are read: those of text may be large, and only their beginnings are.
    Remarks on what is no mistake go to ``diagnostics``.

    Raises:
        SpecError: with every mistake found in any of them.
        UsageError: if the text is empty.
        MissingInputError, DataError: of the files of a task; of text that is not UTF-8, an ``init``
            that does not fit.
    """
    from bertc import passes
    from bertc.data.sources.files import begins_as_text
    from bertc.external import begun_from, judged_by
    from bertc.interop.foreseen import remark_own_layout
    from bertc.syntax.load import read_spec
    from bertc.syntax.space import has_ranges

    _refuse_empty(spec)
    written = read_spec(spec, overrides, diagnostics)
    complete = compile_spec(written, (), diagnostics, searched=has_ranges(written))
    for program in complete:
        passes.missing_inputs(program, diagnostics)
        passes.tagged_text(program, diagnostics)
    diagnostics.raise_if_any()
    found = list[Resolved]()
    for program in complete:
        begins_as_text(program)
        judged_by(program)
        resolved = passes.assemble(program)
        begun_from(resolved)
        remark_own_layout(program, resolved, diagnostics)
        found.append(resolved)
    return tuple(found)


def compile_spec(
    spec: str | SpecLocation | Written | Program,
    overrides: Sequence[str],
    diagnostics: Diagnostics,
    *,
    searched: bool = False,
) -> list[Complete]:
    """Every program of a spec with all its settings, each with its origin.

    Facts from other files are filled in first: the network of ``init``, labels and examples of
    tasks; then how many steps a budget has room for.
    Then every pass runs. Errors go to ``diagnostics``.
    ``searched``: as ``syntax.load``.

    Raises:
        UsageError: if the text is empty.
        MissingInputError, DataError: if a file that decides a setting cannot be read.
    """
    from bertc import syntax
    from bertc.choosing.equal import equalled
    from bertc.external import filled_in

    if isinstance(spec, Program):
        programs = equalled([spec], diagnostics)
        programs = [filled_in(program, diagnostics) for program in programs]
        return _completed(programs, diagnostics)
    _refuse_empty(spec)
    programs = syntax.load(spec, overrides, diagnostics, searched=searched)
    if not diagnostics.found:
        programs = equalled(programs, diagnostics)
        programs = [filled_in(program, diagnostics) for program in programs]
    return _completed(programs, diagnostics)


def _refuse_empty(spec: object) -> None:
    if isinstance(spec, str) and not spec.strip():
        raise UsageError("the spec is empty", help="a file, a shipped spec's name, or a text")


def _completed(programs: list[Program], diagnostics: Diagnostics) -> list[Complete]:
    """Run every pass, and hold the programs against the files of ``init``."""
    from bertc import passes
    from bertc.begun import vectors_fit

    finished = [passes.complete(program, diagnostics) for program in programs]
    for program in finished:
        vectors_fit(program, diagnostics)
    return finished


def resolve(spec: Spec, overrides: Sequence[str] = ()) -> Resolved:
    """Resolve a file, a shipped spec's name, the text of a spec, or a program.

    Raises:
        SpecError: with every mistake found.
        UsageError: if the spec is a grid of several points.
    """

    if isinstance(spec, Resolved):
        return spec
    found = points(spec, overrides)
    if len(found) > 1:
        raise UsageError(
            f"this spec is a grid of {len(found)} points, but one program is needed",
            help=f"give each list one value with --set, such as those of: {found[0].name}",
        )
    return found[0]


def show(spec: str, overrides: Sequence[str] = ()) -> Showing:
    """Every setting of a spec with its value and its source; a notebook shows it as a table.

    Raises:
        SpecError: with every mistake found.
    """
    from bertc.starting.showing import show as run

    return run(spec, overrides)


def estimate(
    spec: Spec, device: str = "h200", convention: Convention = "exact", *, devices: int = 1
) -> Estimate:
    """Parameters, FLOPs, memory (bytes) and time (seconds) of a spec on named devices."""
    from bertc.estimate import estimate as run
    from bertc.external import row_lengths

    resolved = resolve(spec)
    (lengths,) = row_lengths([resolved])
    return run(resolved, device, convention, devices=devices, lengths=lengths)


def build(spec: Spec) -> Model:
    """Build the module of a spec with its initial weights, on the CPU, in training mode.

    With ``init`` these are the weights that training starts from, at the first stage's depth.

    Raises:
        MissingInputError, DataError, UnsafeError: if ``init`` names no model that fits.
    """
    from bertc.nn import build as run
    from bertc.train.beginning.init_from import source_of
    from bertc.train.state import begin

    resolved = resolve(spec)
    source = source_of(resolved)
    return begin(resolved, resolved.stages[0], source).model if source else run(resolved)


def train(
    spec: Spec,
    out: str | Path,
    overrides: Sequence[str] = (),
    *,
    resume: bool = False,
    tracking: Tracking | None = None,
) -> Report:
    """Train a spec in the run folder ``out``, or with ``resume`` continue the run there.

    ``tracking`` feeds the trackers that ``log`` names: ``bertc.trackers.sink.feeding``.
    """
    from bertc.syntax.files import spec_text
    from bertc.train.loop import train as run

    resolved = resolve(spec, overrides)
    text = spec_text(spec, overrides) if isinstance(spec, str) else ""
    return run(resolved, Path(out), spec_text=text, resume=resume, tracking=tracking)


def load(folder: str | Path) -> Trained:
    """Load the module of a run or of an imported or exported folder, in evaluation mode.

    Besides ``encode`` it has ``tokenizer``, ``fill`` and ``predict``, which take texts.

    Raises:
        MissingInputError, DataError, UnsafeError: if there is no model, or it cannot be read.
    """
    from bertc.inference.trained import load as run

    return run(Path(folder))


def runs(folder: str | Path = "runs", where: Sequence[str] = (), order: str = "when") -> Listing:
    """List the runs in a folder and below it, a typed row each; a notebook shows a table.

    ``where`` and ``order`` are as ``bertc runs --where --sort``; ``.rows()`` are for a data frame.

    Raises:
        MissingInputError: if there is no such folder, or no run in it.
        UsageError, SpecError: of a condition.
    """
    from bertc.runs.listing import list_runs

    return list_runs([Path(folder)], where, order)
