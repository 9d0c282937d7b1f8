"""Applies the edits that diagnostics offer."""

from collections.abc import Iterable

from bertc.diagnostics import Diagnostic, Fix, Source


def apply_fixes(source: Source, diagnostics: Iterable[Diagnostic]) -> str:
    """The text of a source after the fixes that concern it; of two that overlap, the first.

    One of several edits is made once, whoever offers it: two mistakes may have one way out.
    """
    edits: list[Fix] = []
    for fix in (diagnostic.fix for diagnostic in diagnostics if diagnostic.fix):
        if fix.also and fix in edits:
            continue
        parts = (fix, *fix.also)
        here = all(part.span.source == source for part in parts)
        if here and not any(_overlap(part, edit) for part in parts for edit in edits):
            edits += parts
    text = source.text
    for edit in reversed(sorted(edits, key=lambda edit: (edit.span.start, edit.span.end))):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text


def _overlap(one: Fix, other: Fix) -> bool:
    """Whether two edits are of the same characters; two insertions at one place are not."""
    return one.span.start < other.span.end and other.span.start < one.span.end
