"""What a finding of the passes says beside its message: the other place, and what to write."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from bertc.diagnostics import Fix, Note, Span
from bertc.ir.program.written import Given
from bertc.passes.stages import StageView

Place = tuple[str | int, ...]
"""The address of a piece of a value, as in ``Origin.parts``."""


def note(message: str, span: Span | None) -> tuple[Note, ...]:
    """A note on another place, where that was written."""
    return (Note(message, span),) if span else ()


def fix(given: Given | None, instead: str) -> Fix | None:
    """Write a setting anew, where this spec or ``--set`` writes it."""
    span = written(given)
    return Fix(span, instead) if span else None


def fix_argument(given: Given | None, place: Place, name: str, value: str) -> Fix | None:
    """Write one argument of a kind anew, or put it behind the others; all else stays.

    ``place`` is where the kind stands in the value: () for a kind by itself.
    """
    span = written(given)
    kind = given.origin.parts.get(place) if given else None
    if given is None or span is None or kind is None:
        return None
    if argument := given.origin.parts.get((*place, name)):
        return Fix(argument, value if argument != kind else f"{name}={value}")
    if kind.text.endswith(")"):
        return Fix(Span(kind.source, kind.end - 1, kind.end), f", {name}={value})")
    bare = kind.text.replace("-", "").isalpha()
    return Fix(kind, f"{kind.text}({name}={value})") if bare else None


def fix_settings(stage: StageView, beside: Given | None, settings: str) -> Fix | None:
    """Write several settings anew, ``a=1 b=2``; those that are not there yet beside another."""
    anchor = written(beside)
    if anchor is None:
        return None
    edits = []
    for setting in settings.split():
        span = written(stage.given(setting.partition("=")[0]))
        after = Span(anchor.source, anchor.end, anchor.end)
        edits.append(Fix(span, setting) if span else Fix(after, f" {setting}"))
    if any(edit.span.source != anchor.source for edit in edits):
        return None
    return replace(edits[0], also=tuple(edits[1:]))


class Way(TypedDict):
    """The way out of a finding: what to write, in the words of its fix where it has one."""

    help: str
    fix: Fix | None


def argument(setting: str, given: Given | None, name: str, value: str, place: Place = ()) -> Way:
    """Another value of an argument; of a setting that stands elsewhere, that it be written here."""
    edit = fix_argument(given, place, name, value)
    help = f"{name}={value}" if edit else f"write {setting} anew, with {name} {value}"
    return {"help": help, "fix": edit}


def fix_kind(given: Given | None, kind: str) -> Fix | None:
    """Write another kind of the same arguments."""
    span = written(given)
    value = given.origin.parts.get(()) if given else None
    if span is None or value is None:
        return None
    _, bracket, arguments = value.text.partition("(")
    return Fix(value, kind + bracket + arguments)


def terms_written(given: Given | None, wanted: Callable[[int], bool]) -> str:
    """The terms of a sum as they are written, those that are wanted; empty if none is written."""
    if given is None:
        return ""
    spans = (given.origin.parts.get((index,)) for index in range(len(given.value)))
    return " + ".join(span.text for index, span in enumerate(spans) if span and wanted(index))


def written(given: Given | None) -> Span | None:
    """Where this spec, or ``--set``, writes a setting, if one does."""
    return given.origin.span if given and given.origin.kind in ("written", "set") else None
