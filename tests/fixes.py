"""What all passes find in a text, and first remedies applied to it, as an editor does it."""

from collections.abc import Iterable

from bertc import lang
from bertc.base.diagnostics import Diagnostic, Diagnostics, Fix, Source
from bertc.check import passes
from bertc.lang.helps import remedies, with_edits


def found(spec: str) -> Diagnostics:
    """Mistakes and remarks on every program of a spec."""
    diagnostics = Diagnostics()
    for program in lang.load(spec, (), diagnostics):
        passes.complete(program, diagnostics)
    return diagnostics


def apply_fixes(source: Source, diagnostics: Iterable[Diagnostic]) -> str:
    """The text of a source after its first remedies; of two that overlap, only one is applied.

    Edits that two diagnostics share are made once.
    """
    edits: list[Fix] = []
    for diagnostic in diagnostics:
        for way in remedies(diagnostic, source.text)[:1]:
            if not any(
                _overlap(part, edit) or part == edit for part in way.edits for edit in edits
            ):
                edits += way.edits
    return with_edits(source.text, edits)


def _overlap(first: Fix, second: Fix) -> bool:
    """True if two edits touch the same characters; insertions at one place do not."""
    return first.span.start < second.span.end and second.span.start < first.span.end
