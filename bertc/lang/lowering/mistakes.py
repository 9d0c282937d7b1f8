"""Reports of mistakes in values: their form, their words, their numbers and arguments."""

import os
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.ir.base import Node
from bertc.ir.learning.custom_task import TASKS
from bertc.lang.read import tree
from bertc.lang.read.numbers import HOURS, TOKENS_UNIT, unit_of
from bertc.lang.read.parse import OVERRIDE
from bertc.lang.read.shapes import Limits, Shape, arguments

BAD: Final = object()
"""The result of converting a wrong value, which has been reported."""
LEAST_PERCENTS = 5
"""The least number that is taken for percents: 2 may be a factor."""

_YES, _NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")
"""Other spellings of true and false, and of on and off."""
_FORMS = {
    tree.String: "a string", tree.Series: "a list", tree.Ratio: "a ratio", tree.Sum: "a sum",
    tree.Scaled: "a weighted term", tree.Range: "a range", tree.Grid: "a grid",
}  # fmt: skip


class Slot(NamedTuple):
    """A value with the name of its setting or argument, where its mistakes are reported.

    ``prefix`` is the text before the value, ``of`` the setting of an argument whose name is not
    written.
    """

    value: tree.Value
    diagnostics: Diagnostics
    name: str
    prefix: str
    of: str = ""

    def refuse(
        self,
        code: str,
        problem: str,
        instead: str = "",
        *,
        label: str = "",
        note: str = "",
        help: str = "",
    ) -> Any:
        """Report a ``problem``, with what to write ``instead`` of the value; returns BAD."""
        self.diagnostics.error(
            code,
            f"`{self.name}` {problem}",
            self.value.span,
            label=label,
            notes=(Note(note),) if note else (),
            help=help or (self.prefix + instead if instead else ""),
            fix=Fix(self.value.span, instead) if instead else None,
        )
        return BAD


def wrong_value(shape: Shape, slot: Slot) -> Any:
    """Report a value of a form that its shape lacks, or a word that is none of its names."""
    value, forms = slot.value, _forms_of(shape)
    counted = shape.whole or shape.number or any(n.bare_number for n in shape.kinds.values())
    if isinstance(value, tree.Number) and value.unit and counted:
        return _wrong_unit(value, slot)
    if node := shape.ratio:
        problem = f"cannot be {_describe(value)}"
        if isinstance(value, tree.Ratio):
            problem = f"has {len(node.positional)} parts, not {len(value.parts)}"
        return slot.refuse("E108", problem, label="/".join(node.positional))
    if shape.names:
        return _wrong_word(shape, slot)
    help = f"{slot.prefix}[...]" if shape.item and not forms[1:] else ""
    form = " or ".join(filter(None, (", ".join(forms[:-1]), forms[-1])))
    return slot.refuse("E108", f"is {form}, not {_describe(value)}", help=help)


def wrong_number(value: tree.Number, limits: Limits, slot: Slot) -> Any:
    """Report a number beyond its limits."""
    number, text = value.value or 0, value.text
    # Only a whole number of percents can mean nothing else.
    plain = isinstance(number, int) and number >= LEAST_PERCENTS
    percent = plain and (limits.le or limits.lt or 2) <= 1 and limits.hold(number / 100)
    instead = f"{text}%" if percent else ""
    if (unit := unit_of(text)) and number <= 0:
        instead = f"1{' ' * (unit not in HOURS)}{unit}"
    return slot.refuse("E109", f"is {text}, must be {limits}", instead)


def _wrong_unit(value: tree.Number, slot: Slot) -> Any:
    """Report a number of tokens, FLOPs or hours where something else is counted."""
    text, unit, instead = value.text, unit_of(value.text), ""
    if slot.name == "steps" and not slot.of and unit != TOKENS_UNIT:
        instead = f"equal({text})"
    elif unit == TOKENS_UNIT:
        instead = text.removesuffix(unit).rstrip()
    help = "" if instead else "a number without a unit"
    return slot.refuse("E326", f"is not counted in {unit}", instead, help=help)


def _wrong_word(shape: Shape, slot: Slot) -> Any:
    """Report a value that is no name of a shape, or a path without quotes."""
    value, names = slot.value, shape.names
    if slot.name == "task":  # by this name an objective is one of those
        names = [name for name in names if name in TASKS] or names
    written = value.span.text.partition("(")[0].strip("\"'")
    if family := [word for word in names if word.startswith(f"{written}(")]:
        return _wrong_member(written, family, slot)
    synonyms = next((words for words in (_YES, _NO) if written.lower() in words), ())
    near = next((word for word in names if word in synonyms), "")
    if not near and isinstance(value, tree.Name | tree.Call | tree.String):
        near = nearest(written, names)
    name: tree.Value = value
    if isinstance(value, tree.Call) and shape.kinds and near not in shape.words:
        name = value.name
    slot = slot._replace(value=name)
    path = shape.bare("bare_string") and isinstance(name, tree.Name)
    if path and os.path.lexists(written):
        override = name.span.source.name.startswith(OVERRIDE)  # of which a shell removes quotes
        instead = f"./{written}" if override else f'"{written}"'
        label = "a path has a `/` in it here" if override else "a path stands in quotes"
        return slot.refuse("E103", f"cannot be {_describe(name)}", instead, label=label)
    note = f"it is one of: {', '.join((*names, *_forms_of(shape)))}"
    return slot.refuse(
        "E103" if isinstance(name, tree.Name) else "E108",
        f"{slot.of and f'of `{slot.of}` '}cannot be {_describe(name)}",
        near,
        label=f"did you mean `{near}`?" if near else "",
        note=note + f'; or a path in quotes, as in "{written[:40]}"' * bool(path and not near),
        help=slot.prefix + near + rest_of_line(name, value) if near else "",
    )


def _wrong_member(before: str, family: list[str], slot: Slot) -> Any:
    """Report another first argument, or none, of kinds that are named with it: ``kd(logits)``."""
    call, words = slot.value, [word[len(before) + 1 : -1] for word in family]
    first = call.arguments[0].value if isinstance(call, tree.Call) and call.arguments else call
    written = first.text if isinstance(first, tree.Name) and first is not call else ""
    near = nearest(written, words) if written else ""
    return slot._replace(value=first if written else call).refuse(
        "E103",
        f"cannot be `{before}{written and f'({written[:40]})'}`",
        near,
        label=f"did you mean `{near}`?" if near else "",
        note=f"it is one of: {', '.join(family)}",
        help=f"{slot.prefix}{before}({near or words[0]})",
    )


def _forms_of(shape: Shape) -> list[str]:
    """The forms of values of a shape that are neither words nor kinds."""
    units = [node.number_unit for node in shape.kinds.values() if node.number_unit]
    forms = {
        "a whole number": shape.whole,
        "a fraction" if shape.whole else "a number": shape.number,
        "a string": shape.text,
        f"a list{f' of {shape.length}' if shape.length else ''}": shape.item,
    }
    return [form for form, has in forms.items() if has] + [f"a number of {u}" for u in units]


def _describe(value: tree.Value) -> str:
    """A value in a few words, for messages."""
    match value:
        case tree.Number():
            return f"the number {value.text}"
        case tree.Name():
            return f"`{value.text[:40]}`"
        case tree.Call():
            return f"`{value.name.text[:40]}(...)`"
        case _:
            return _FORMS[type(value)]


# ---- arguments


def wrong_argument(
    argument: tree.Argument,
    kind: str,
    shapes: Mapping[str, Shape],
    fitting: Collection[str],
    slot: Slot,
) -> None:
    """Report a named argument that the kind lacks; ``fitting`` ones could have its value."""
    call = slot.value
    assert argument.name is not None, "an unnamed argument takes a known name"
    name = argument.name.text
    written = call.arguments if isinstance(call, tree.Call) else ()
    known = f"its arguments: {listed(shapes)}" if shapes else "it has no arguments"
    free = [n for n in fitting or shapes if n not in [a.name.text for a in written if a.name]]
    only = isinstance(argument.value, tree.Ratio) and len(free) == 1
    near = free[0] if only else nearest(name, free)
    help, fix = "remove it", removal(argument, call)
    if near:
        help, fix = near + rest_of_line(argument.name, argument), Fix(argument.name.span, near)
    slot.diagnostics.error(
        "E104",
        f"`{kind}` has no argument `{name[:40]}`",
        argument.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(known),),
        help=help,
        fix=fix,
    )


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


def given_twice(
    name: str, again: Span, first: Note, fix: Fix | None, diagnostics: Diagnostics
) -> None:
    """Report two settings or arguments of one name, which another may have without a ``fix``."""
    help = "remove one of the two" if fix else "give it another name"
    message = f"`{name}` is given twice"
    diagnostics.error("E102", message, again, notes=(first,), help=help, fix=fix)


def rest_of_line(name: tree.Placed, item: tree.Placed) -> str:
    """The text after a name within its setting or argument; dots if it is long."""
    rest = item.span.source.text[name.span.end : item.span.end]
    return rest if len(rest) <= 40 and "\n" not in rest else " ..."


def removal(argument: tree.Argument, call: tree.Value) -> Fix | None:
    """The edit that removes an argument from a call, with its comma."""
    if not isinstance(call, tree.Call):
        return None
    place = call.arguments.index(argument)
    source = argument.span.source
    if len(call.arguments) == 1:
        return Fix(Span(source, call.name.span.end, call.span.end), "")
    if place:
        before = call.arguments[place - 1].span.end
        return Fix(Span(source, before, argument.span.end), "")
    return Fix(Span(source, argument.span.start, call.arguments[1].span.start), "")
