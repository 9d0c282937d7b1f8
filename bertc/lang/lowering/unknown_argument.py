"""Reports of unknown arguments, and the edits that remove or rename one."""

from collections.abc import Collection, Iterable

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.ir.program.settings import Settings
from bertc.lang.lowering.other_tools import NOT_HERE, NOT_OF_KIND, OTHER_TOOLS
from bertc.lang.read.shapes import KindShape, Shape, arguments, setting_shape
from bertc.lang.read.tree import Argument, Call, Placed, Ratio, Value


def unknown_argument(
    argument: Argument,
    call: Value,
    kind: str,
    shapes: dict[str, Shape],
    fitting: Collection[str],
    diagnostics: Diagnostics,
) -> None:
    """Report a named argument that the kind does not have; ``fitting`` ones could have its value.

    An argument of another kind of the same setting comes before one with a similar name.
    """
    assert argument.name is not None, "an unnamed argument takes a known name"
    name = argument.name.text
    names_given = [a.name.text for a in call.arguments if a.name] if isinstance(call, Call) else []
    usual_name = OTHER_TOOLS.get(name.lower(), "")
    known = f"its arguments: {listed(shapes)}" if shapes else "it has no arguments"
    not_here = NOT_OF_KIND.get((kind, name)) or NOT_HERE.get(name.lower(), "")
    sibling = "" if usual_name in shapes else _sibling(kind, [name])
    free = [n for n in fitting or shapes if n not in names_given]
    near = usual_name if usual_name in free else nearest(name, free)
    if isinstance(argument.value, Ratio) and len(free) == 1:
        near = free[0]
    near = "" if sibling or not_here else near
    label = f"did you mean `{near}`?" if near else f"`{sibling}` has it" if sibling else ""
    sibling = sibling and _sibling(kind, names_given)
    help, fix = "remove it", removal(argument, call)
    if near:
        help, fix = near + rest_of_line(argument.name, argument), Fix(argument.name.span, near)
    elif sibling and isinstance(call, Call):
        help = sibling + rest_of_line(call.name, call)
        fix = Fix(call.name.span, sibling)
    diagnostics.error(
        "E104",
        f"`{kind}` has no argument `{name[:40]}`",
        argument.name.span,
        label=label,
        notes=(Note(not_here or known),),
        help=help,
        fix=fix,
    )


def _sibling(kind: str, names: Iterable[str]) -> str:
    """Another kind of the same setting with all these arguments; empty if none, or for terms."""
    for setting in Settings.model_fields:
        shape = setting_shape(setting)
        if isinstance(shape, KindShape) and kind in shape.options:
            info = Settings.model_fields[setting]
            usual = "" if info.is_required() else getattr(info.default, "kind", "")
            for option in (usual, *shape.options):
                if option in shape.options and set(names) <= set(arguments(shape.options[option])):
                    return option
    return ""


def rest_of_line(name: Placed, item: Placed) -> str:
    """The text after a name within its setting or argument; dots if it is long."""
    rest = item.span.source.text[name.span.end : item.span.end]
    return rest if len(rest) <= 40 and "\n" not in rest else " ..."


def removal(argument: Argument, call: Value) -> Fix | None:
    """The edit that removes an argument from a call, with its comma."""
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
