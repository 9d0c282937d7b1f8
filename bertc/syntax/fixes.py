"""Application of the edits that diagnostics offer."""

from collections.abc import Iterable

from bertc.diagnostics import Diagnostic, Fix, Source


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


def with_edits(text: str, edits: Iterable[Fix]) -> str:
    """A text after edits of it that do not overlap."""
    for edit in reversed(sorted(edits, key=lambda edit: (edit.span.start, edit.span.end))):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text


def _overlap(first: Fix, second: Fix) -> bool:
    """True if two edits touch the same characters; insertions at one place do not."""
    return first.span.start < second.span.end and second.span.start < first.span.end
