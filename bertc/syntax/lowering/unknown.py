"""What is said about a name of a setting or of an argument that there is none of."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bertc.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.ir.base import Node
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, aliases
from bertc.ir.program.written import Program
from bertc.syntax.read.parse import parse
from bertc.syntax.read.shapes import (
    Either,
    Kinds,
    Several,
    Shape,
    Summed,
    arguments,
    required,
    setting_shape,
)
from bertc.syntax.read.tree import (
    Argument,
    Call,
    Name,
    Number,
    Placed,
    Scaled,
    Setting,
    Sum,
    Text,
    Value,
)
from bertc.syntax.write.show import show_value

ELSEWHERE = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "hidden_size": "hidden",
    "intermediate_size": "ffn",
    "train_batch_size": "batch",
    "per_device_train_batch_size": "batch",
    "max_seq_length": "seq",
    "num_train_epochs": "epochs",
    "max_steps": "steps",
    "learning_rate": "lr",
    "weight_decay": "decay",
    "warmup_steps": "warmup",
    "warmup_ratio": "warmup",
    "max_grad_norm": "clip",
    "doc_stride": "stride",
    "train_file": "train",
    "data": "train",
    "validation_file": "dev",
    "validation": "dev",
    "test_file": "test",
    "target": "label",
    "gold": "label",
    "gold_label": "label",
    "column": "text",
    "sentence": "text",
    "sentence1": "text",
    "sentence_a": "text",
    "premise": "text",
    "text_pair": "pair",
    "sentence2": "pair",
    "sentence_b": "pair",
    "hypothesis": "pair",
}
"""What other tools call settings, and arguments of their kinds."""

LONGEST_SHOWN = 160


@dataclass
class Beside:
    """What a spec says otherwise: settings by name, the spec that it extends.

    ``here`` are those that an argument may be moved to: a stage takes what the others say over.
    ``strays`` are settings that there are none of: a help gives arguments of one kind together.
    """

    written: Mapping[str, Setting] = field(default_factory=dict)
    base: Program | None = None
    here: Collection[str] = ()
    strays: Sequence[Setting] = ()

    def stands(self, setting: str) -> Setting | None:
        """A setting as it is written, as the nearest base has it or as by default."""
        if setting in self.written:
            return self.written[setting]
        base = self.base
        while base is not None and setting not in base.settings:
            base = base.base
        info = Settings.model_fields[setting]
        if base is None and info.is_required():
            return None  # it follows from others
        value = base.settings[setting].value if base else info.default
        text = f"{setting}={show_value(value, setting_shape(setting))}"
        return next(parse(text).settings())


def unknown_setting(item: Setting, block: str, beside: Beside, found: Diagnostics) -> None:
    """A name that no setting has, or none of a stage; it may be that of an argument of a kind.

    An argument of that very name is meant rather than a setting of a similar one.
    """
    known = STAGE_SETTINGS if block else tuple(Settings.model_fields)
    name = item.name.text
    other = ELSEWHERE.get(name.lower(), "")
    argument = _argument_meant(name, known)
    if other not in known and _holders(argument, known):
        _an_argument(item, argument, known, beside, found)
        return
    near = other if other in known else nearest(name, known)
    if not near and name.upper() in aliases():
        near = name.upper()
    found.error(
        "E101",
        f"unknown setting `{name[:40]}`",
        item.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(f"settings: {listed(known, limit=400)}"),),
        help=near + in_line(item.name, item) if near else "remove it",
        fix=Fix(item.name.span, near) if near else Fix(item.span, ""),
    )


def _an_argument(
    item: Setting, argument: str, known: Collection[str], beside: Beside, found: Diagnostics
) -> None:
    """A setting by the name of an argument: it belongs to a kind that the spec has, or may have."""
    holders = _holders(argument, known)
    kinds = list(dict.fromkeys(kind for _, kind in holders))
    value = item.value.span.text
    if setting := _home(item, known, beside):
        others = [s for s in beside.strays if s != item and _home(s, known, beside) == setting]
        together = sorted((item, *others), key=lambda each: each.span.start)
        help = _with_arguments(together, setting, known, beside)
        if not help:
            others, help = [], _with_arguments([item], setting, known, beside)
        edits = tuple(Fix(other.span, "") for other in others)
        written = beside.written.get(setting)
        if written and setting in beside.here and written.span.source == item.span.source:
            fix: Fix | None = Fix(item.span, "", (*edits, Fix(written.span, help)))
        else:
            fix = Fix(item.span, help, edits)
    else:
        setting, kind = next((h for h in holders if h[0] not in beside.written), holders[0])
        needs = [f"{n}=..." for n in required(_kinds(setting_shape(setting))[kind])]
        needs = [each for each in needs if each != f"{argument}=..."]
        help = f"{setting}={kind}({', '.join([*needs, f'{argument}={value}'])})"
        fix = None if needs or setting in beside.written else Fix(item.span, help)
    help = help if len(help) <= LONGEST_SHOWN else f"{argument}={value} within its parentheses"
    found.error(
        "E101",
        f"unknown setting `{item.name.text[:40]}`",
        item.name.span,
        label=f"`{argument}` is an argument of {listed(kinds, limit=40)}",
        help=help,
        fix=fix,
    )


def _argument_meant(name: str, known: Collection[str]) -> str:
    """The argument that a name of no setting is, or what other tools call it so."""
    return name if _holders(name, known) else ELSEWHERE.get(name.lower(), name)


def _holders(argument: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """Settings and those of their kinds that have an argument of a name."""
    return [
        (setting, kind)
        for setting in known
        for kind, node in _kinds(setting_shape(setting)).items()
        if argument in arguments(node)
    ]


def _home(item: Setting, known: Collection[str], beside: Beside) -> str:
    """The setting that has a kind, as it stands, of which a stray is an argument; empty if none."""
    argument = _argument_meant(item.name.text, known)
    holders = [] if argument in known else _holders(argument, known)
    for setting in dict.fromkeys(setting for setting, _ in holders):
        if (stands := beside.stands(setting)) and _addition(stands, item, known):
            return setting
    return ""


def _with_arguments(
    items: Sequence[Setting], setting: str, known: Collection[str], beside: Beside
) -> str:
    """A setting as it stands, with strays added as its arguments; empty if some cannot be read."""
    stands, text = beside.stands(setting), ""
    for item in items:
        if text:
            found = Diagnostics()
            stands = next(parse(text, diagnostics=found).settings(), None)
            if found.found:
                return ""
        assert stands is not None, "it is the home of the strays"
        if edit := _addition(stands, item, known):
            whole = stands.value.span
            start, end = edit.span.start - whole.start, edit.span.end - whole.start
            value = f"{whole.text[:start]}{edit.replacement}{whole.text[end:]}"
            text = f"{stands.name.text}={value}"
    return text


def _addition(setting: Setting, item: Setting, known: Collection[str]) -> Fix | None:
    """The edit that gives the kind of a setting a stray as argument, or as another value of it."""
    argument, value = _argument_meant(item.name.text, known), item.value.span.text
    kinds = list(dict.fromkeys(kind for _, kind in _holders(argument, known)))
    shape = _kinds(setting_shape(_canonical(setting.name.text)))
    for term in _terms(setting.value):
        form = "bare_number" if isinstance(term, Number) else "bare_string"
        bare = (k for k in kinds if k in shape and getattr(shape[k], form))
        if isinstance(term, Number | Text) and (kind_of := next(bare, "")):
            return Fix(term.span, f"{kind_of}({term.span.text}, {argument}={value})")
    named = ((t.name if isinstance(t, Call) else t, t) for t in _terms(setting.value))
    of_kinds = [(k, term) for k, term in named if isinstance(k, Name) and k.text in kinds]
    for kind, term in sorted(of_kinds, key=lambda each: kinds.index(each[0].text))[:1]:
        if not isinstance(term, Call) or not term.arguments:
            return Fix(term.span, f"{kind.text}({argument}={value})")
        order = iter(shape[kind.text].positional)
        for each in term.arguments:
            if (each.name.text if each.name else next(order, "")) == argument:
                return Fix(each.value.span, value)
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


def _kinds(shape: Shape) -> Mapping[str, type[Node]]:
    match shape:
        case Kinds():
            return shape.options if shape.named else {}
        case Summed():
            return _kinds(shape.inner)
        case Several():
            return _kinds(shape.item)
        case Either():
            return {name: node for each in shape.options for name, node in _kinds(each).items()}
        case _:
            return {}


def unknown_argument(
    argument: Argument, call: Value, kind: str, shapes: dict[str, Shape], found: Diagnostics
) -> None:
    """A named argument that the kind does not have.

    One that another kind of the same setting has is meant rather than one of a similar name; one
    that the call gives already is not meant.
    """
    assert argument.name is not None, "an unnamed argument takes a known name"
    name = argument.name.text
    given = [a.name.text for a in call.arguments if a.name] if isinstance(call, Call) else []
    other = ELSEWHERE.get(name.lower(), "")
    known = f"its arguments: {listed(shapes)}" if shapes else "it has no arguments"
    sibling = "" if other in shapes else _sibling(kind, [name])
    open_ = [each for each in shapes if each not in given]
    near = "" if sibling else other if other in open_ else nearest(name, open_)
    label = f"did you mean `{near}`?" if near else f"`{sibling}` has it" if sibling else ""
    sibling = sibling and _sibling(kind, given)
    help, fix = "remove it", removal(argument, call)
    if near:
        help, fix = near + in_line(argument.name, argument), Fix(argument.name.span, near)
    elif sibling and isinstance(call, Call):
        help = sibling + in_line(call.name, call)
        fix = Fix(call.name.span, sibling)
    found.error(
        "E104",
        f"`{kind}` has no argument `{name[:40]}`",
        argument.name.span,
        label=label,
        notes=(Note(known),),
        help=help,
        fix=fix,
    )


def _sibling(kind: str, given: Iterable[str]) -> str:
    """Another kind of the same setting that has all the arguments given; not of a sum's terms."""
    for setting in Settings.model_fields:
        shape = setting_shape(setting)
        if isinstance(shape, Kinds) and kind in shape.options:
            info = Settings.model_fields[setting]
            usual = "" if info.is_required() else getattr(info.default, "kind", "")
            for each in (usual, *shape.options):
                if each in shape.options and set(given) <= set(arguments(shape.options[each])):
                    return each
    return ""


def in_line(first: Placed, whole: Placed) -> str:
    """What follows a name within its setting or argument, if it is short enough to repeat."""
    rest = whole.span.source.text[first.span.end : whole.span.end]
    return rest if len(rest) <= 40 and "\n" not in rest else " ..."


def removal(argument: Argument, call: Value) -> Fix | None:
    """Take an argument out of a call, with the comma that goes with it."""
    if not isinstance(call, Call):
        return None
    place = call.arguments.index(argument)
    source = argument.span.source
    if len(call.arguments) == 1:
        return Fix(Span(source, call.name.span.end, call.span.end), "")
    if place:
        before = call.arguments[place - 1].span.end
        return Fix(Span(source, before, argument.span.end), "")
    return Fix(Span(source, argument.span.start, call.arguments[1].span.start), "")
