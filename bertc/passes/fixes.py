"""What a finding of the passes says beside its message: the other place, and what to write."""

from bertc.diagnostics import Fix, Note, Span
from bertc.ir.program import Given


def note(message: str, span: Span | None) -> tuple[Note, ...]:
    """A note on another place, where that was written."""
    return (Note(message, span),) if span else ()


def fix(given: Given | None, instead: str) -> Fix | None:
    """Write a setting anew, where this spec writes it."""
    if given is None or given.origin.kind != "written" or given.origin.span is None:
        return None
    return Fix(given.origin.span, instead)
