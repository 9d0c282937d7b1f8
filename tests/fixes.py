"""Application of the fixes of diagnostics, as an editor does it."""

from collections.abc import Iterable

from bertc.base.diagnostics import Diagnostic, Fix, Source
from bertc.lang.helps import with_edits


def apply_fixes(source: Source, diagnostics: Iterable[Diagnostic]) -> str:
    """The text of a source after its fixes; of two that overlap, only the first is applied.

    A fix of several edits that two diagnostics share is applied once.
    """
    edits: list[Fix] = []
    for fix in (diagnostic.fix for diagnostic in diagnostics if diagnostic.fix):
        if fix.also and fix in edits:
            continue
        parts = (fix, *fix.also)
        here = all(part.span.source == source for part in parts)
        if here and not any(_overlap(part, edit) for part in parts for edit in edits):
            edits += parts
    return with_edits(source.text, edits)


def _overlap(first: Fix, second: Fix) -> bool:
    """True if two edits touch the same characters; insertions at one place do not."""
    return first.span.start < second.span.end and second.span.start < first.span.end
