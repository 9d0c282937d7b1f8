"""What is said about a kind, or an argument of a kind, that is wrong."""

from collections.abc import Iterable, Mapping

from bertc.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.ir.base import Node
from bertc.ir.settings import STAGE_SETTINGS, Settings, aliases
from bertc.syntax.scalars import Slot, described
from bertc.syntax.shapes import (
    Choice,
    Either,
    Kinds,
    Several,
    Shape,
    Summed,
    Whole,
    arguments,
    required,
    setting_shape,
)
from bertc.syntax.tree import (
    Argument,
    Call,
    Name,
    Number,
    Placed,
    Ratio,
    Scaled,
    Setting,
    Sum,
    Text,
    Value,
)

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
}
"""What other tools call settings, and arguments of their kinds."""


def wrong_form(value: Value, shape: Kinds, slot: Slot, diagnostics: Diagnostics) -> None:
    """A value that is no kind where a kind is wanted."""
    instead, help = "", ""
    if isinstance(value, Text):
        instead = nearest(value.value, shape.options)
    elif isinstance(value, Sum | Scaled):
        help = "only objective and data are sums"
    elif isinstance(value, Number):
        if value.value is None:
            return
        instead = _taking_number(value, shape)
    if not instead and not help:
        help = slot.prefix + _example(shape)
    diagnostics.error(
        "E108",
        f"`{slot.name}` cannot be {described(value)}",
        value.span,
        notes=(Note(f"it is one of: {listed(shape.options)}"),),
        help=help or slot.prefix + instead,
        fix=Fix(value.span, instead) if instead else None,
    )


def unknown_setting(item: Setting, block: str, found: Diagnostics) -> None:
    """A name that no setting has, or none of a stage; it may be that of an argument of a kind."""
    known = STAGE_SETTINGS if block else tuple(Settings.model_fields)
    name = item.name.text
    other = ELSEWHERE.get(name.lower(), "")
    near = other if other in known else nearest(name, known)
    if not near and name.upper() in aliases():
        near = name.upper()
    inside = "" if near else _argument_of(other or name, known)
    found.error(
        "E101",
        f"unknown setting `{name[:40]}`",
        item.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(f"settings: {listed(known, limit=400)}"),),
        help=near + in_line(item.name, item) if near else inside or "remove it",
        fix=Fix(item.name.span, near) if near else None if inside else Fix(item.span, ""),
    )


def _argument_of(name: str, known: Iterable[str]) -> str:
    """How an argument is written that a kind of some setting has by this name."""
    for setting in known:
        for kind, node in _kinds(setting_shape(setting)).items():
            if name in arguments(node):
                return f"{setting}={kind}({name}=...)"
    return ""


def _kinds(shape: Shape) -> Mapping[str, type[Node]]:
    match shape:
        case Kinds():
            return shape.options
        case Summed():
            return _kinds(shape.inner)
        case Several():
            return _kinds(shape.item)
        case Either():
            return {name: node for each in shape.options for name, node in _kinds(each).items()}
        case _:
            return {}


def unknown_kind(name: Name, value: Value, shape: Kinds, slot: Slot, found: Diagnostics) -> None:
    """A word that names no kind."""
    shorthands = [
        kind
        for node in shape.options.values()
        if isinstance(inner := arguments(node).get(node.shorthand), Kinds)
        for kind in inner.options
    ]
    known = [*shape.options, *shorthands]
    inside = _taking_word(name.text, shape)
    near = "" if inside else nearest(name.text, known)
    found.error(
        "E103",
        f"`{slot.name}` cannot be `{name.text[:40]}`",
        name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(f"it is one of: {listed(known)}"),),
        help=slot.prefix + (near + in_line(name, value) if near else inside or _example(shape)),
        fix=Fix(name.span, near) if near else None,
    )


def missing_argument(name: str, kind: str, node: type[Node], value: Value, d: Diagnostics) -> None:
    """An argument that has no default and is not given."""
    d.error(
        "E107",
        f"`{kind}` needs `{name}`",
        value.span,
        help=f"{kind}({', '.join(f'{each}=...' for each in required(node))})",
    )


def unknown_argument(
    argument: Argument, call: Value, kind: str, shapes: dict[str, Shape], found: Diagnostics
) -> None:
    """A named argument that the kind does not have."""
    assert argument.name is not None, "an unnamed argument takes a known name"
    other = ELSEWHERE.get(argument.name.text.lower(), "")
    near = other if other in shapes else nearest(argument.name.text, shapes)
    known = f"its arguments: {listed(shapes)}" if shapes else "it has no arguments"
    found.error(
        "E104",
        f"`{kind}` has no argument `{argument.name.text[:40]}`",
        argument.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(known),),
        help=near + in_line(argument.name, argument) if near else "remove it",
        fix=Fix(argument.name.span, near) if near else _removal(argument, call),
    )


def argument_twice(
    name: str, again: Argument, first: Argument, call: Value, found: Diagnostics
) -> None:
    """Two arguments for one name."""
    found.error(
        "E105",
        f"`{name}` is given twice",
        again.span,
        notes=(Note("first given here", first.span),),
        help="remove one of the two",
        fix=_removal(again, call),
    )


def too_many_arguments(
    argument: Argument, call: Value, node: type[Node], kind: str, found: Diagnostics
) -> None:
    """More unnamed arguments than there are names to fill."""
    count = len(node.positional)
    names = f"unnamed arguments fill: {', '.join(node.positional)}" if count else ""
    found.error(
        "E106",
        f"`{kind}` takes {count or 'no'} unnamed argument{'s' * (count != 1)}",
        argument.span,
        notes=(Note(names),) if names else (),
        help="remove it, or name it" if len(arguments(node)) > count else "remove it",
        fix=_removal(argument, call),
    )


def wrong_parts(ratio: Ratio, node: type[Node], slot: Slot, found: Diagnostics) -> None:
    """A ratio with more or fewer parts than it should have."""
    names = "/".join(node.positional)
    found.error(
        "E108",
        f"`{slot.name}` has {len(node.positional)} parts, not {len(ratio.parts)}",
        ratio.span,
        label=names,
    )


def product_of_terms(value: Scaled, found: Diagnostics) -> None:
    """Two terms joined by ``*``, which joins a number and a term."""
    text = f"{value.factor.span.text} + {value.term.span.text}"
    found.error(
        "E108",
        f"a weight is a number, not {described(value.factor)}",
        value.factor.span,
        label="terms are joined by +",
        help=text if len(text) <= 80 else "join the two by +",
        fix=Fix(value.span, text),
    )


def in_line(first: Placed, whole: Placed) -> str:
    """What follows a name within its setting or argument, if it is short enough to repeat."""
    rest = whole.span.source.text[first.span.end : whole.span.end]
    return rest if len(rest) <= 40 and "\n" not in rest else " ..."


def _removal(argument: Argument, call: Value) -> Fix | None:
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


def _taking_number(value: Number, shape: Kinds) -> str:
    """A kind whose one needed argument is a number, such as ``groups(4)`` for 4."""
    for kind, node in shape.options.items():
        needed = required(node)
        if len(needed) == 1 and isinstance(arguments(node)[needed[0]], Whole):
            return f"{kind}({value.text})" if isinstance(value.value, int) else ""
    return ""


def _taking_word(word: str, shape: Kinds) -> str:
    """A kind whose first argument is the word, such as ``glue(mrpc, data=...)`` for mrpc."""
    for kind, node in shape.options.items():
        first = next(iter(node.positional), "")
        options = arguments(node).get(first)
        if isinstance(options, Choice) and word in options.options:
            others = (f"{name}=..." for name in required(node) if name != first)
            return f"{kind}({', '.join((word, *others))})"
    return ""


def _example(shape: Kinds) -> str:
    plain = (kind for kind, node in shape.options.items() if not required(node))
    return next(plain, next(iter(shape.options)))
