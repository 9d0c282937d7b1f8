"""Rules of settings that do not go together, and notes and fixes of diagnostics."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar

from bertc.base.diagnostics import Fix, Note, Span
from bertc.ir.written import Origin

Place = tuple[str | int, ...]
"""The path of a part of a value, as in ``Origin.parts``."""


def note(message: str, span: Span | None) -> tuple[Note, ...]:
    """A note at another setting, if that is written."""
    return (Note(message, span),) if span else ()


def fix(origin: Origin | None, instead: str) -> Fix | None:
    """Replace a setting by others, if this spec or ``--set`` writes it."""
    span = span_if_written(origin)
    return Fix(span, instead) if span else None


def fix_argument(origin: Origin | None, place: Place, name: str, value: str) -> Fix | None:
    """Replace one argument of a kind, or append it; all else stays.

    ``place`` is the path of the kind in the value; () for the value itself.
    """
    span = span_if_written(origin)
    kind = origin.parts.get(place) if origin else None
    if origin is None or span is None or kind is None:
        return None
    if argument := origin.parts.get((*place, name)):
        return Fix(argument, value if argument != kind else f"{name}={value}")
    if kind.text.endswith(")"):
        return Fix(Span(kind.source, kind.end - 1, kind.end), f", {name}={value})")
    bare = kind.text.replace("-", "").isalpha()
    return Fix(kind, f"{kind.text}({name}={value})") if bare else None


class Way(TypedDict):
    """The remedy of a diagnostic: a help text, and the fix that it describes if there is one."""

    help: str
    fix: Fix | None


def argument(setting: str, origin: Origin | None, name: str, value: str, place: Place = ()) -> Way:
    """A remedy by another argument, or advice to write the setting here."""
    edit = fix_argument(origin, place, name, value)
    help = f"{name}={value}" if edit else f"write {setting} anew, with {name} {value}"
    return {"help": help, "fix": edit}


def terms_written(origin: Origin, chosen: Callable[[int], bool]) -> str:
    """The wanted terms of a sum as they are written; empty if the sum is not written."""
    tops = (place[0] for place in origin.parts if len(place) == 1)
    terms = sorted(index for index in tops if isinstance(index, int) and chosen(index))
    return " + ".join(origin.parts[(index,)].text for index in terms)


def span_if_written(origin: Origin | None) -> Span | None:
    """The span of a setting in this spec or ``--set``, if written there."""
    return origin.span if origin and origin.kind in ("written", "set") else None


_S = TypeVar("_S")
_T = TypeVar("_T")
Of: TypeAlias = _T | Callable[[_S], _T]
"""A value, or a function that computes it from the settings."""
Where: TypeAlias = str | tuple[str, ...]
"""Settings to point at, the first that is written; ``optimizer.lr`` is an argument of one."""
Also: TypeAlias = tuple[str, str]
"""Another setting to point at, and the words of that note."""


class Rule(NamedTuple, Generic[_S]):
    """A mistake (E...) or a remark (R...) about the settings of a run or a stage.

    ``help`` is settings, as in ``a=1 b=2 or a=3``, which editors write, or advice in words; ``way``
    is a help with an edit of another form.
    """

    code: str
    at: Of[Where, _S]
    when: Callable[[_S], object]
    says: Of[str, _S]
    also: Of[Also | None, _S] = None
    label: Of[str, _S] = ""
    help: Of[str, _S] = ""
    way: Callable[[_S], Way | None] | None = None


class Rules(NamedTuple):
    """Rules of a kind, by the settings that they are of: those of stages that have it."""

    stage: tuple[Rule[Any], ...] = ()
    """Mistakes of any complete stage."""
    network: tuple[Rule[Any], ...] = ()
    """Mistakes of its network, where the program has no others."""
    tasks: tuple[Rule[Any], ...] = ()
    """Mistakes of tasks, whose rows vary, before lengths become steps."""
    text: tuple[Rule[Any], ...] = ()
    """Mistakes of stages of text."""
    remarks: tuple[Rule[Any], ...] = ()
    """Remarks on a run without mistakes."""
    rows: tuple[Rule[Any], ...] = ()
    """Mistakes of stages of text, with rows that are not as it needs them."""
    timed: tuple[Rule[Any], ...] = ()
    """Mistakes of a run that ends with its time, not after a number of steps."""


def call_text(kind: str, *arguments: str) -> str:
    """The text of a kind with arguments; some kinds are named with the first: ``kd(logits)``."""
    if not arguments:
        return kind
    if kind.endswith(")"):
        return f"{kind[:-1]}, {', '.join(arguments)})"
    return f"{kind}({', '.join(arguments)})"
