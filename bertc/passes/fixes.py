"""What a finding of the passes says beside its message: the other place, and what to write."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from bertc.diagnostics import Fix, Note, Span
from bertc.ir.program.complete import StageSettings
from bertc.ir.program.written import Origin

Place = tuple[str | int, ...]
"""The address of a piece of a value, as in ``Origin.parts``."""


def note(message: str, span: Span | None) -> tuple[Note, ...]:
    """A note on another place, where that was written."""
    return (Note(message, span),) if span else ()


def fix(origin: Origin | None, instead: str) -> Fix | None:
    """Write a setting anew, where this spec or ``--set`` writes it."""
    span = written(origin)
    return Fix(span, instead) if span else None


def fix_argument(origin: Origin | None, place: Place, name: str, value: str) -> Fix | None:
    """Write one argument of a kind anew, or put it behind the others; all else stays.

    ``place`` is where the kind stands in the value: () for a kind by itself.
    """
    span = written(origin)
    kind = origin.parts.get(place) if origin else None
    if origin is None or span is None or kind is None:
        return None
    if argument := origin.parts.get((*place, name)):
        return Fix(argument, value if argument != kind else f"{name}={value}")
    if kind.text.endswith(")"):
        return Fix(Span(kind.source, kind.end - 1, kind.end), f", {name}={value})")
    bare = kind.text.replace("-", "").isalpha()
    return Fix(kind, f"{kind.text}({name}={value})") if bare else None


def fix_settings(stage: StageSettings, beside: Origin | None, settings: str) -> Fix | None:
    """Write several settings anew, ``a=1 b=2``; those that are not there yet beside another."""
    anchor = written(beside)
    if anchor is None:
        return None
    edits = []
    for setting in settings.split():
        span = written(stage.origins.get(setting.partition("=")[0]))
        after = Span(anchor.source, anchor.end, anchor.end)
        edits.append(Fix(span, setting) if span else Fix(after, f" {setting}"))
    if any(edit.span.source != anchor.source for edit in edits):
        return None
    return replace(edits[0], also=tuple(edits[1:]))


class Way(TypedDict):
    """The way out of a finding: what to write, in the words of its fix where it has one."""

    help: str
    fix: Fix | None


def argument(setting: str, origin: Origin | None, name: str, value: str, place: Place = ()) -> Way:
    """Another value of an argument; of a setting that stands elsewhere, that it be written here."""
    edit = fix_argument(origin, place, name, value)
    help = f"{name}={value}" if edit else f"write {setting} anew, with {name} {value}"
    return {"help": help, "fix": edit}


def fix_kind(origin: Origin | None, kind: str) -> Fix | None:
    """Write another kind of the same arguments."""
    span = written(origin)
    value = origin.parts.get(()) if origin else None
    if span is None or value is None:
        return None
    _, bracket, arguments = value.text.partition("(")
    return Fix(value, kind + bracket + arguments)


def terms_written(origin: Origin, wanted: Callable[[int], bool]) -> str:
    """The terms of a sum as they are written, those that are wanted; empty if none is written."""
    tops = (place[0] for place in origin.parts if len(place) == 1)
    terms = sorted(at for at in tops if isinstance(at, int) and wanted(at))
    return " + ".join(origin.parts[(at,)].text for at in terms)


def written(origin: Origin | None) -> Span | None:
    """Where this spec, or ``--set``, writes a setting, if one does."""
    return origin.span if origin and origin.kind in ("written", "set") else None
