"""Reports of mistakes in kinds and their arguments."""

import os

from bertc.base.diagnostics import Diagnostics, Fix, Note, listed, nearest
from bertc.ir.base import Node
from bertc.ir.learning.custom_task import TASKS
from bertc.lang.lowering.scalars import Slot, describe_value
from bertc.lang.lowering.unknown import removal, rest_of_line
from bertc.lang.read import tree
from bertc.lang.read.parse import OVERRIDE
from bertc.lang.read.shapes import KindShape, arguments


def wrong_form(value: tree.Value, shape: KindShape, slot: Slot, diagnostics: Diagnostics) -> None:
    """Report a value that is no kind where a kind is expected."""
    instead = ""
    if isinstance(value, tree.String):
        instead = nearest(value.value, shape.options)
    elif isinstance(value, tree.Number) and value.value is None:
        return
    problem, note = describe_value(value), f"it is one of: {listed(_words_of(slot.name, shape))}"
    slot.refuse(value, "E108", f"cannot be {problem}", diagnostics, instead, note=note)


def refuse_kind(
    name: tree.Name, value: tree.Value, shape: KindShape, slot: Slot, diagnostics: Diagnostics
) -> None:
    """Report a word that names no kind, or a path without quotes."""
    if shape.bare("bare_string") and os.path.lexists(name.text):
        _report_unquoted_path(name, slot, diagnostics)
        return
    known, wrong, before, after = _words_of(slot.name, shape), name, "", ""
    if family := [word for word in known if word.startswith(f"{name.text}(")]:  # `kd(logits)`
        first = (
            value.arguments[0].value if isinstance(value, tree.Call) and value.arguments else None
        )
        wrong = first if isinstance(first, tree.Name) else tree.Name(value.span, "")
        known, before, after = family, f"{name.text}(", ")"
    names = [word.removeprefix(before).removesuffix(after) for word in known]
    near = nearest(wrong.text, names) if wrong.text else ""
    instead = near + rest_of_line(name, value) if near and not before else ""
    if before:
        instead = f"{before}{near or names[0]}{after}"
    path = ""
    if shape.bare("bare_string") and not near:
        path = f'; or a path in quotes, as in "{name.text[:40]}"'
    diagnostics.error(
        "E103",
        f"`{slot.name}` cannot be `{before if wrong.text else name.text}{wrong.text[:40]}"
        f"{after if wrong.text else ''}`",
        wrong.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(f"it is one of: {', '.join(known)}{path}"),),
        help=slot.prefix + instead if instead else "",
        fix=Fix(wrong.span, near) if near else None,
    )


def _words_of(setting: str, shape: KindShape) -> list[str]:
    """The words of a shape that a setting is for by the name that was written."""
    tasks = [word for word in shape.words if word in TASKS]
    return tasks if setting == "task" and tasks else shape.words


def _report_unquoted_path(name: tree.Name, slot: Slot, diagnostics: Diagnostics) -> None:
    """Report an existing path without quotes, which a shell removes after ``--set``."""
    override = name.span.source.name.startswith(OVERRIDE)
    instead = f"./{name.text}" if override else f'"{name.text}"'
    label = "a path has a `/` in it here" if override else "a path stands in quotes"
    problem = f"cannot be `{name.text[:40]}`"
    slot.refuse(name, "E103", problem, diagnostics, instead, label=label)


def argument_twice(
    name: str,
    again: tree.Argument,
    first: tree.Argument,
    call: tree.Value,
    free: bool,
    diagnostics: Diagnostics,
) -> None:
    """Report two arguments of one name; ``free``: the name is chosen by the user."""
    diagnostics.error(
        "E102",
        f"`{name}` is given twice",
        again.span,
        notes=(Note("first given here", first.span),),
        help="give it another name" if free else "remove one of the two",
        fix=None if free else removal(again, call),
    )


def too_many_arguments(
    argument: tree.Argument, call: tree.Value, node: type[Node], kind: str, diagnostics: Diagnostics
) -> None:
    """Report more unnamed arguments than the kind takes."""
    count = len(node.positional)
    names = f"unnamed arguments fill: {', '.join(node.positional)}" if count else ""
    diagnostics.error(
        "E104",
        f"`{kind}` takes {count or 'no'} unnamed argument{'s' * (count != 1)}",
        argument.span,
        notes=(Note(names),) if names else (),
        help="remove it, or name it" if len(arguments(node)) > count else "remove it",
        fix=removal(argument, call),
    )


def wrong_parts(value: tree.Value, node: type[Node], slot: Slot, diagnostics: Diagnostics) -> None:
    """Report a ratio with the wrong number of parts, or what is none."""
    problem = f"cannot be {describe_value(value)}"
    if isinstance(value, tree.Ratio):
        problem = f"has {len(node.positional)} parts, not {len(value.parts)}"
    slot.refuse(value, "E108", problem, diagnostics, label="/".join(node.positional))
