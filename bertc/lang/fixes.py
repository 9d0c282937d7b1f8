"""Application of the edits that diagnostics offer."""

from collections.abc import Iterable

from bertc.base.diagnostics import Fix


def with_edits(text: str, edits: Iterable[Fix]) -> str:
    """A text after edits of it that do not overlap."""
    for edit in reversed(sorted(edits, key=lambda edit: (edit.span.start, edit.span.end))):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text
