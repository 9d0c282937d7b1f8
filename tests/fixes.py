"""Application of the first remedies of diagnostics, as an editor does it."""

from collections.abc import Iterable

from bertc.base.diagnostics import Diagnostic, Fix, Source
from bertc.lang.helps import remedies, with_edits


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
