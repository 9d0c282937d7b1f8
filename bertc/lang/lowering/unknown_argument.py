"""Reports of unknown arguments with the edits that mend one."""

from collections.abc import Collection

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.lang.read.shapes import Shape
from bertc.lang.read.tree import Argument, Call, Placed, Ratio, Value

_NO_WINDOWS = "a longer text is cut at the end of its row; classify, regress, tag, tagging, read "
_NO_WINDOWS += "and squad read it in windows"
NOT_OF_KIND = {
    ("squad", "test"): "a test file is scored after training: bertc eval RUN --task "
    "\"squad('test.json')\", and answered by bertc predict RUN test.json",
    **{(kind, "stride"): _NO_WINDOWS for kind in ("glue", "xnli", "choose", "race", "embed")},
}
"""Reasons why a kind lacks an argument that others have, by kind and argument."""


def unknown_argument(
    argument: Argument,
    call: Value,
    kind: str,
    shapes: dict[str, Shape],
    fitting: Collection[str],
    diagnostics: Diagnostics,
) -> None:
    """Report a named argument that the kind lacks; ``fitting`` ones could have its value."""
    assert argument.name is not None, "an unnamed argument takes a known name"
    name = argument.name.text
    names_given = [a.name.text for a in call.arguments if a.name] if isinstance(call, Call) else []
    known = f"its arguments: {listed(shapes)}" if shapes else "it has no arguments"
    not_here = NOT_OF_KIND.get((kind, name), "")
    free = [n for n in fitting or shapes if n not in names_given]
    near = nearest(name, free)
    if isinstance(argument.value, Ratio) and len(free) == 1:
        near = free[0]
    near = "" if not_here else near
    help, fix = "remove it", removal(argument, call)
    if near:
        help, fix = near + rest_of_line(argument.name, argument), Fix(argument.name.span, near)
    diagnostics.error(
        "E104",
        f"`{kind}` has no argument `{name[:40]}`",
        argument.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(not_here or known),),
        help=help,
        fix=fix,
    )


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
