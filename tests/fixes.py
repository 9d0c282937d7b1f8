"""What all passes find in a text, and first remedies applied to it, as an editor does it."""

from collections.abc import Iterable
from contextlib import suppress

from bertc import lang
from bertc.base.diagnostics import Diagnostic, Diagnostics, Fix, MissingInputError, Source
from bertc.check import passes
from bertc.check.facts import facts as filled_in
from bertc.ir.written import Program
from bertc.lang.helps import apply_edits, remedies


def load(spec: str, sets: tuple[str, ...], diagnostics: Diagnostics) -> list[Program]:
    """The programs of a spec as they are written, with the shapes of their teachers."""
    programs = lang.load(spec, sets, diagnostics)
    if "spec(" in spec and not diagnostics.found:
        with suppress(MissingInputError):
            programs = [filled_in(program, diagnostics) for program in programs]
    return programs


def found(spec: str) -> Diagnostics:
    """Mistakes and remarks on every program of a spec."""
    diagnostics = Diagnostics()
    for program in load(spec, (), diagnostics):
        passes.complete(program, diagnostics)
    return diagnostics


def apply_fixes(source: Source, diagnostics: Iterable[Diagnostic]) -> str:
    """The text of a source after its first remedies; of two that overlap, only one is applied.
    Edits that two diagnostics share are made once.
    """
    edits: list[Fix] = []
    for diagnostic in diagnostics:
        for way in remedies(diagnostic, source.text)[:1]:
            both = ((part, edit, part.span, edit.span) for part in way.edits for edit in edits)
            # Insertions at one place touch no character of each other.
            if not any(
                part == edit or (one.start < other.end and other.start < one.end)
                for part, edit, one, other in both
            ):
                edits += way.edits
    return apply_edits(source.text, edits)
