"""Reports of unknown settings, which may be arguments of a kind."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.ir.base import call_text
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, aliases
from bertc.ir.program.written import Program
from bertc.lang.lowering.other_tools import NOT_HERE, OTHER_TOOLS
from bertc.lang.lowering.unknown_argument import rest_of_line
from bertc.lang.read.parse import parse
from bertc.lang.read.shapes import arguments, kinds_in, required, setting_shape
from bertc.lang.read.tree import Call, Name, Number, Scaled, Setting, String, Sum, Value
from bertc.lang.write.show import show_value

MAX_HELP_CHARACTERS = 160


@dataclass
class SpecContext:
    """The context of a setting: the other settings of the spec, and the spec that it extends.

    ``here`` are the settings that an argument may be moved to: those of the same block. ``strays``
    are all unknown settings: arguments of one kind are moved together.
    """

    written: Mapping[str, Setting] = field(default_factory=dict)
    base: Program | None = None
    here: Collection[str] = ()
    strays: Sequence[Setting] = ()

    def current(self, setting: str) -> Setting | None:
        """A setting as written, else as the nearest base has it, else its default."""
        if setting in self.written:
            return self.written[setting]
        base = self.base
        while base is not None and setting not in base.settings:
            base = base.base
        info = Settings.model_fields[setting]
        if base is None and info.is_required():
            return None  # it is derived from others
        value = base.settings[setting].value if base else info.default
        text = f"{setting}={show_value(value, setting_shape(setting))}"
        return next(parse(text).settings())


def unknown_setting(
    item: Setting, block: str, context: SpecContext, diagnostics: Diagnostics
) -> None:
    """Report an unknown setting, or one unknown in a stage; it may be an argument of a kind.

    An argument with exactly this name comes before a setting with a similar one.
    """
    known = STAGE_SETTINGS if block else tuple(Settings.model_fields)
    name = item.name.text
    usual_name = OTHER_TOOLS.get(name.lower(), "")
    argument = _argument_meant(name, known)
    if usual_name not in known and _holders(argument, known):
        _report_argument(item, argument, known, context, diagnostics)
        return
    not_here = NOT_HERE.get(name.lower(), "")
    near = usual_name if usual_name in known else "" if not_here else nearest(name, known)
    if not near and name.upper() in aliases():
        near = name.upper()
    diagnostics.error(
        "E101",
        f"unknown setting `{name[:40]}`",
        item.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=_once(Note(not_here or f"settings: {listed(known, limit=400)}"), diagnostics),
        help=near + rest_of_line(item.name, item) if near else "remove it",
        fix=Fix(item.name.span, near) if near else Fix(item.span, ""),
    )


def _once(note: Note, diagnostics: Diagnostics) -> tuple[Note, ...]:
    """A note, unless another diagnostic has it."""
    return () if any(note in earlier.notes for earlier in diagnostics.found) else (note,)


def _report_argument(
    item: Setting,
    argument: str,
    known: Collection[str],
    context: SpecContext,
    diagnostics: Diagnostics,
) -> None:
    """Report an argument written as a setting, with an edit that moves it into its kind."""
    holders = _holders(argument, known)
    kinds = list(dict.fromkeys(kind for _, kind in holders))
    value = item.value.span.text
    if setting := _home(item, known, context):
        other_strays = [
            s for s in context.strays if s != item and _home(s, known, context) == setting
        ]
        together = sorted((item, *other_strays), key=lambda stray: stray.span.start)
        help = _with_arguments(together, setting, known, context)
        if not help:
            other_strays, help = [], _with_arguments([item], setting, known, context)
        edits = tuple(Fix(stray.span, "") for stray in other_strays)
        written = context.written.get(setting)
        if written and setting in context.here and written.span.source == item.span.source:
            fix: Fix | None = Fix(item.span, "", (*edits, Fix(written.span, help)))
        else:
            fix = Fix(item.span, help, edits)
    else:
        setting, kind = next((h for h in holders if h[0] not in context.written), holders[0])
        needs = [f"{n}=..." for n in required(kinds_in(setting_shape(setting))[kind])]
        needs = [text for text in needs if text != f"{argument}=..."]
        help = f"{setting}={call_text(kind, *needs, f'{argument}={value}')}"
        fix = None if needs or setting in context.written else Fix(item.span, help)
    help = (
        help if len(help) <= MAX_HELP_CHARACTERS else f"{argument}={value} within its parentheses"
    )
    diagnostics.error(
        "E101",
        f"unknown setting `{item.name.text[:40]}`",
        item.name.span,
        label=f"`{argument}` is an argument of {listed(kinds, limit=40)}",
        help=help,
        fix=fix,
    )


def _argument_meant(name: str, known: Collection[str]) -> str:
    """The argument of this name, or the one that other tools give this name."""
    return name if _holders(name, known) else OTHER_TOOLS.get(name.lower(), name)


def _holders(argument: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs (setting, kind) that have an argument of this name."""
    return [
        (setting, kind)
        for setting in known
        for kind, node in kinds_in(setting_shape(setting)).items()
        if argument in arguments(node)
    ]


def _home(item: Setting, known: Collection[str], context: SpecContext) -> str:
    """The setting whose current kind has a stray as argument; empty if there is none."""
    argument = _argument_meant(item.name.text, known)
    holders = [] if argument in known else _holders(argument, known)
    for setting in dict.fromkeys(setting for setting, _ in holders):
        if (current := context.current(setting)) and _addition(current, item, known):
            return setting
    return ""


def _with_arguments(
    items: Sequence[Setting], setting: str, known: Collection[str], context: SpecContext
) -> str:
    """The text of a setting with strays added as arguments; empty if some cannot be read."""
    current, text = context.current(setting), ""
    for item in items:
        if text:
            report = Diagnostics()
            current = next(parse(text, diagnostics=report).settings(), None)
            if report.found:
                return ""
        assert current is not None, "it is the home of the strays"
        if edit := _addition(current, item, known):
            value_span = current.value.span
            start, end = edit.span.start - value_span.start, edit.span.end - value_span.start
            value = f"{value_span.text[:start]}{edit.replacement}{value_span.text[end:]}"
            text = f"{current.name.text}={value}"
    return text


def _addition(setting: Setting, item: Setting, known: Collection[str]) -> Fix | None:
    """The edit that adds a stray to the kind of a setting, or replaces that argument."""
    argument, value = _argument_meant(item.name.text, known), item.value.span.text
    kinds = list(dict.fromkeys(kind for _, kind in _holders(argument, known)))
    shape = kinds_in(setting_shape(_canonical(setting.name.text)))
    for term in _terms(setting.value):
        form = "bare_number" if isinstance(term, Number) else "bare_string"
        bare = (k for k in kinds if k in shape and getattr(shape[k], form))
        if isinstance(term, Number | String) and (kind_of := next(bare, "")):
            return Fix(term.span, f"{kind_of}({term.span.text}, {argument}={value})")
    named = ((t.name if isinstance(t, Call) else t, t) for t in _terms(setting.value))
    of_kinds = [(k, term) for k, term in named if isinstance(k, Name) and k.text in kinds]
    for kind, term in sorted(of_kinds, key=lambda pair: kinds.index(pair[0].text))[:1]:
        if not isinstance(term, Call) or not term.arguments:
            return Fix(term.span, f"{kind.text}({argument}={value})")
        order = iter(shape[kind.text].positional)
        for written in term.arguments:
            if (written.name.text if written.name else next(order, "")) == argument:
                return Fix(written.value.span, value)
        last = term.arguments[-1].span.end
        return Fix(Span(term.span.source, last, last), f", {argument}={value}")
    return None


def _canonical(name: str) -> str:
    return aliases().get(name, name)


def _terms(value: Value) -> Iterator[Value]:
    match value:
        case Sum():
            for term in value.terms:
                yield from _terms(term)
        case Scaled():
            yield value.term
        case _:
            yield value
