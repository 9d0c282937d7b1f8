"""Reports of mistakes in kinds and their arguments."""

import os
from typing import Any

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.ir.base import Node
from bertc.ir.learning.custom_task import TASKS
from bertc.lang.lowering.scalars import BAD, Slot, describe_value
from bertc.lang.lowering.unknown import removal, rest_of_line
from bertc.lang.read import tree
from bertc.lang.read.parse import OVERRIDE
from bertc.lang.read.shapes import KindShape, arguments


def wrong_form(shape: KindShape, slot: Slot) -> Any:
    """Report a value that is no kind where one is expected, or no ratio of the right parts."""
    value, parts = slot.value, next(iter(shape.options.values())).positional
    problem = f"cannot be {describe_value(value)}"
    if parts and not shape.named:
        if isinstance(value, tree.Ratio):
            problem = f"has {len(parts)} parts, not {len(value.parts)}"
        return slot.refuse("E108", problem, label="/".join(parts))
    if isinstance(value, tree.Number) and value.value is None:
        return BAD  # reported when it was read
    instead = nearest(value.value, shape.options) if isinstance(value, tree.String) else ""
    note = f"it is one of: {listed(_words_of(slot.name, shape))}"
    return slot.refuse("E108", problem, instead, note=note)


def refuse_kind(name: tree.Name, shape: KindShape, slot: Slot) -> Any:
    """Report a word that names no kind, or a path without quotes."""
    if shape.bare("bare_string") and os.path.lexists(name.text):
        override = name.span.source.name.startswith(OVERRIDE)  # of which a shell removes quotes
        instead = f"./{name.text}" if override else f'"{name.text}"'
        label = "a path has a `/` in it here" if override else "a path stands in quotes"
        problem = f"cannot be `{name.text[:40]}`"
        return slot._replace(value=name).refuse("E103", problem, instead, label=label)
    known, wrong, before, after = _words_of(slot.name, shape), name, "", ""
    if family := [word for word in known if word.startswith(f"{name.text}(")]:  # `kd(logits)`
        inside = slot.value.arguments if isinstance(slot.value, tree.Call) else ()
        first = inside[0].value if inside else None
        wrong = first if isinstance(first, tree.Name) else tree.Name(slot.value.span, "")
        known, before, after = family, f"{name.text}(", ")"
    names = [word.removeprefix(before).removesuffix(after) for word in known]
    near = nearest(wrong.text, names) if wrong.text else ""
    instead = near + rest_of_line(name, slot.value) if near and not before else ""
    if before:
        instead = f"{before}{near or names[0]}{after}"
    path = ""
    if shape.bare("bare_string") and not near:
        path = f'; or a path in quotes, as in "{name.text[:40]}"'
    full = f"{before}{wrong.text[:40]}{after}" if wrong.text else name.text
    return slot._replace(value=wrong).refuse(
        "E103",
        f"cannot be `{full}`",
        near,
        label=f"did you mean `{near}`?" if near else "",
        note=f"it is one of: {', '.join(known)}{path}",
        help=slot.prefix + instead if instead else "",
    )


def _words_of(setting: str, shape: KindShape) -> list[str]:
    """The words of a shape that a setting is for by the name that was written."""
    tasks = [word for word in shape.words if word in TASKS]
    return tasks if setting == "task" and tasks else shape.words


def given_twice(
    name: str, again: Span, first: Note, fix: Fix | None, diagnostics: Diagnostics
) -> None:
    """Report two settings or arguments of one name, which another may have without a ``fix``."""
    help = "remove one of the two" if fix else "give it another name"
    message = f"`{name}` is given twice"
    diagnostics.error("E102", message, again, notes=(first,), help=help, fix=fix)


def too_many_arguments(argument: tree.Argument, node: type[Node], kind: str, slot: Slot) -> None:
    """Report more unnamed arguments than the kind takes."""
    count = len(node.positional)
    names = f"unnamed arguments fill: {', '.join(node.positional)}" if count else ""
    slot.diagnostics.error(
        "E104",
        f"`{kind}` takes {count or 'no'} unnamed argument{'s' * (count != 1)}",
        argument.span,
        notes=(Note(names),) if names else (),
        help="remove it, or name it" if len(arguments(node)) > count else "remove it",
        fix=removal(argument, slot.value),
    )
