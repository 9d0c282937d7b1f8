"""Applies the edits that diagnostics offer."""

from collections.abc import Iterable

from bertc.diagnostics import Diagnostic, Source


def apply_fixes(source: Source, diagnostics: Iterable[Diagnostic]) -> str:
    """The text of a source after the fixes that concern it; of two that overlap, the first."""
    text = source.text
    fixes = [d.fix for d in diagnostics if d.fix and d.fix.span.source == source]
    edges = len(text) + 1
    for fix in reversed(sorted(fixes, key=lambda fix: (fix.span.start, fix.span.end))):
        if fix.span.end <= edges:
            text = text[: fix.span.start] + fix.replacement + text[fix.span.end :]
            edges = fix.span.start
    return text
