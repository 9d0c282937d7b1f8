"""Reports of unknown settings, which may be arguments of a kind."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bertc.base.diagnostics import Diagnostics, Fix, Note, listed, nearest
from bertc.ir.base import Node, call_text
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, aliases
from bertc.ir.program.written import Program
from bertc.lang.lowering.unknown_argument import NOT_HERE, OTHER_TOOLS, rest_of_line
from bertc.lang.read.parse import parse
from bertc.lang.read.shapes import arguments, kinds_in, required, setting_shape
from bertc.lang.read.tree import Argument, Call, Name, Number, Scaled, Setting, String, Sum, Value
from bertc.lang.write.format import flat
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


def unknown_setting(item: Setting, block: str, spec: SpecContext, diagnostics: Diagnostics) -> None:
    """Report an unknown setting, in a stage too; it may be an argument of a kind."""
    known = STAGE_SETTINGS if block else tuple(Settings.model_fields)
    name = item.name.text
    usual_name = OTHER_TOOLS.get(name.lower(), "")
    argument = _argument_meant(name, known)
    if usual_name not in known and _holders(argument, known):
        _report_argument(item, argument, known, spec, diagnostics)
        return
    not_here = NOT_HERE.get(name.lower(), "")
    near = usual_name if usual_name in known else "" if not_here else nearest(name, known)
    if not near and name.upper() in aliases():
        near = name.upper()
    note = Note(not_here or f"settings: {listed(known, limit=400)}")
    diagnostics.error(
        "E101",
        f"unknown setting `{name[:40]}`",
        item.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=() if any(note in earlier.notes for earlier in diagnostics.found) else (note,),
        help=near + rest_of_line(item.name, item) if near else "remove it",
        fix=Fix(item.name.span, near) if near else Fix(item.span, ""),
    )


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
        others = [s for s in context.strays if s != item and _home(s, known, context) == setting]
        current = context.current(setting)
        assert current is not None, "it is the home of the strays"
        changed: Value | None = current.value
        for stray in sorted((item, *others), key=lambda stray: stray.span.start):
            changed = changed and _moved(stray, known, setting, changed)
        assert changed is not None, "its kind has all of them"
        help = f"{current.name.text}={flat(changed)}"
        edits = tuple(Fix(stray.span, "") for stray in others)
        written = context.written.get(setting)
        if written and setting in context.here and written.span.source == item.span.source:
            fix: Fix | None = Fix(item.span, "", (*edits, Fix(written.span, help)))
        else:
            fix = Fix(item.span, help, edits)
    else:
        setting, kind = next((h for h in holders if h[0] not in context.written), holders[0])
        needed = required(kinds_in(setting_shape(setting))[kind])
        needs = [f"{name}=..." for name in needed if name != argument]
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
    for setting, _ in holders:
        if (current := context.current(setting)) and _moved(item, known, setting, current.value):
            return setting
    return ""


def _moved(item: Setting, known: Collection[str], setting: str, value: Value) -> Value | None:
    """A value of a setting with a stray as argument; None if its kind does not have it."""
    name = _argument_meant(item.name.text, known)
    kinds = kinds_in(setting_shape(setting)).items()
    having = {kind: node for kind, node in kinds if name in arguments(node)}
    return _with(value, Argument(item.span, Name(item.name.span, name), item.value), having)


def _with(value: Value, argument: Argument, kinds: Mapping[str, type[Node]]) -> Value | None:
    """A value with an argument of its first term that is of these kinds; None if none is."""
    match value:
        case Sum(terms=terms):
            for place, term in enumerate(terms):
                if new := _with(term, argument, kinds):
                    return replace(value, terms=(*terms[:place], new, *terms[place + 1 :]))
        case Scaled():
            inner = _with(value.term, argument, kinds)
            return replace(value, term=inner) if inner else None
        case Name() if value.text in kinds:
            return Call(value.span, value, (argument,))
        case Call() if value.name.text in kinds:
            order, others = iter(kinds[value.name.text].positional), list(value.arguments)
            names = [a.name.text if a.name else next(order, "") for a in others]
            if argument.name and argument.name.text in names:
                place = names.index(argument.name.text)
                others[place] = replace(others[place], value=argument.value)
                return replace(value, arguments=tuple(others))
            return replace(value, arguments=(*others, argument))
        case Number() | String():
            form = "bare_number" if isinstance(value, Number) else "bare_string"
            for kind, node in kinds.items():
                if getattr(node, form):
                    bare = Argument(value.span, None, value)
                    return Call(value.span, Name(value.span, kind), (bare, argument))
    return None
