"""Conversion of written values to typed ones, by the shape of their setting or argument.

Mistakes are reported at the argument that has them. A value that cannot be converted becomes
``BAD``, so that one mistake gives one message.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bertc.base.diagnostics import Diagnostics, Note, Span, several
from bertc.ir.base import Node
from bertc.ir.fixes import call_text
from bertc.ir.learning.task import NAME_PATTERN
from bertc.lang.lowering import mistakes
from bertc.lang.lowering.scalars import BAD, Slot, describe_value, option_of, read_scalar
from bertc.lang.lowering.unknown import refuse_argument, removal
from bertc.lang.read import shapes, tree
from bertc.lang.read.scan import MOST_MISTAKES

ValuePath = tuple[str | int, ...]
MOST_SUMMANDS = 1_000


def _explain_refusal(error: ErrorDetails, written: str) -> tuple[str, str]:
    """The fault of a value that breaks a rule of an argument, and the remedy."""
    context = error.get("ctx", {})
    of_names = context.get("pattern") == NAME_PATTERN
    help = "small letters, digits, - and _, a letter or a digit first" if of_names else ""
    unit = "character" if isinstance(error["input"], str) else "value"
    if most := context.get("max_length"):
        return f"{written[:40]} is too long", f"at most {several(most, unit)}"
    return f"{written[:40]} is no {'name' if of_names else 'value of it'}", help


def _is_unnamed(value: tree.Value) -> bool:
    """True if a value stands in a list or call without a name before it."""
    before = value.span.source.text[: value.span.start].rstrip()
    return before.endswith(("(", ",", "{", "["))


class Converter:
    """A converter for one value of setting ``name``; ``parts`` collects the spans of its parts."""

    def __init__(self, name: str, diagnostics: Diagnostics) -> None:
        self.name = name
        self.diagnostics = diagnostics
        self.parts: dict[ValuePath, Span] = {}

    def convert(self, value: tree.Value, shape: shapes.Shape, place: ValuePath = ()) -> Any:
        """Convert a value; returns BAD after reporting a mistake."""
        self.parts[place] = value.span
        match shape:
            case shapes.KindShape():
                return self._kinds(value, shape, place)
            case shapes.ListShape():
                return self._several(value, shape, place)
            case shapes.SumShape():
                terms = value.items if isinstance(value, tree.Sum) else (value,)
                if len(terms) > MOST_SUMMANDS:
                    message = f"a sum of {len(terms):,} terms; at most {MOST_SUMMANDS:,} are read"
                    self.diagnostics.error("E011", message, value.span)
                    return BAD
                return self._all(self._term(t, shape, (*place, i)) for i, t in enumerate(terms))
            case shapes.EitherShape():
                return self.convert(value, option_of(value, shape), place)
            case _:
                return read_scalar(shape, self._slot(place, value))

    def _slot(self, place: ValuePath, value: tree.Value) -> Slot:
        """The name of a setting or argument in messages; a summand has that of its setting."""
        name, prefix, of = self.name, "", ""
        if not place:
            prefix = "" if _is_unnamed(value) else f"{name} = "
        elif len(place) != 2 or not isinstance(place[0], int) or place[1] == "weight":
            names = [part for part in place if isinstance(part, str)]
            name = names[-1] if names else self.name
            named = place[-1] == name and name != "weight" and not _is_unnamed(value)
            prefix, of = f"{name}=" if named else "", "" if named or not names else self.name
        return Slot(value, self.diagnostics, name, prefix, of)

    # ---- nodes

    def _kinds(self, value: tree.Value, shape: shapes.KindShape, place: ValuePath) -> Any:
        match value:
            case tree.Name() | tree.Call():
                return self._named(value, shape, place)
            case tree.Number() if node := shape.bare("bare_number"):
                return self._bare(value, node, node.bare_number, place)
            case tree.String() if node := shape.bare("bare_string"):
                return self._bare(value, node, node.bare_string, place)
            case tree.Ratio(parts=parts) if not shape.named:
                (node,) = shape.options.values()
                if len(parts) == len(node.positional):
                    arguments = [tree.Argument(part.span, None, part) for part in parts]
                    return self._build(node, value, "", arguments, place)
        return mistakes.wrong_form(shape, self._slot(place, value))

    def _named(
        self, value: tree.Name | tree.Call, shape: shapes.KindShape, place: ValuePath
    ) -> Any:
        """Build a node by the name of its kind, with or without arguments."""
        name, arguments = _kind_of(value, shape)
        node = shape.options.get(name.text)
        if node is not None:
            return self._build(node, value, name.text if shape.named else "", arguments, place)
        for outer in shape.options.values():
            inner = shapes.arguments(outer).get(outer.shorthand)
            if isinstance(inner, shapes.KindShape) and name.text in inner.options:
                part = self.convert(value, inner, (*place, outer.shorthand))
                return self._make(outer, {outer.shorthand: part}, value, place)
        return mistakes.refuse_kind(name, shape, self._slot(place, value))

    def _bare(
        self, value: tree.Value, node: type[Node], names: tuple[str, ...], place: ValuePath
    ) -> Any:
        """Build a node from a bare number or string, which fills some of its arguments."""
        if isinstance(value, tree.Number) and value.unit == node.number_unit:
            value = replace(value, unit="")
        part = self.convert(value, shapes.arguments(node)[names[0]], place)
        self.parts |= {(*place, name): value.span for name in names}
        return self._make(node, dict.fromkeys(names, part), value, place)

    def _build(
        self,
        node: type[Node],
        value: tree.Value,
        kind: str,
        arguments: Sequence[tree.Argument],
        place: ValuePath,
    ) -> Any:
        known, slot = shapes.arguments(node), self._slot(place, value)
        title = kind or slot.name
        first: dict[str, tree.Argument] = {}
        fields: dict[str, Any] = {"kind": kind} if kind else {}
        gathered: dict[str, Any] = {}
        order = iter(node.positional)
        for argument in arguments:
            name = argument.name.text if argument.name else next(order, None)
            if name is None:
                mistakes.too_many_arguments(argument, node, title, slot)
            elif name not in known and not node.others:
                fitting = [n for n, s in known.items() if self._fits(argument.value, s)]
                refuse_argument(argument, title, known, fitting, slot)
            elif name in first:
                note = Note("first given here", first[name].span)
                fix = removal(argument, value) if name in known else None
                mistakes.given_twice(name, argument.span, note, fix, self.diagnostics)
                if name not in known:
                    gathered[name] = BAD
            else:
                first[name] = argument
                shape = known[name] if name in known else shapes.other_shape(node)
                into = fields if name in known else gathered
                into[name] = self.convert(argument.value, shape, (*place, name))
        missing = [name for name in shapes.required(node) if name not in first]
        help = call_text(title, *(f"{name}=..." for name in shapes.required(node)))
        for name in missing:
            self.diagnostics.error("E107", f"`{title}` needs `{name}`", value.span, help=help)
            fields[name] = BAD
        if node.others:
            fields[node.others] = BAD if BAD in gathered.values() else tuple(gathered.items())
        return self._make(node, fields, value, place)

    def _fits(self, value: tree.Value, shape: shapes.Shape) -> bool:
        return Converter(self.name, Diagnostics()).convert(value, shape) is not BAD

    def _make(
        self, node: type[Node], fields: dict[str, Any], value: tree.Value, place: ValuePath
    ) -> Any:
        """Make the node; rules between arguments raise a ValueError with cause and remedy."""
        if any(part is BAD for part in fields.values()):
            return BAD
        try:
            return node(**fields)
        except ValidationError as error:
            errors = error.errors()  # one for each form that the argument may have
            first = next((e for e in errors if "error" in e.get("ctx", {})), errors[0])
            details = getattr(first.get("ctx", {}).get("error"), "args", ())
            span = self.parts.get((*place, *first["loc"][:1]), value.span)
            refused = details or _explain_refusal(first, span.text)
            cause, help = (*refused, "leave out one of the two")[:2]
            message = f"`{self._slot(place, value).name}`: {cause}"
            self.diagnostics.error("E110", message, span, help=help)
            return BAD

    # ---- lists and sums

    def _several(self, value: tree.Value, shape: shapes.ListShape, place: ValuePath) -> Any:
        slot, count = self._slot(place, value), shape.length
        if isinstance(value, tree.Number) and value.value is None:
            return BAD
        if isinstance(value, tree.Sum) and isinstance(shape.item, shapes.ChoiceShape):
            value = tree.Series(value.span, value.items)  # words read as well with signs
        if not isinstance(value, tree.Series):
            problem = f"is a list{f' of {count}' if count else ''}, not {describe_value(value)}"
            return slot.refuse("E108", problem, help=f"{slot.prefix}[...]")
        if count is not None and len(value.items) != count:
            return slot.refuse("E108", f"has {count} values, not {len(value.items)}")
        if len(value.items) < shape.least:
            few = f"has {several(len(value.items), 'value')}, and needs {shape.least} or more"
            return slot.refuse("E108", few)
        return self._all(
            self.convert(v, shape.item, (*place, i)) for i, v in enumerate(value.items)
        )

    def _all(self, parts: Iterable[Any]) -> Any:
        """A tuple of parts, or BAD if any is; stops after too many mistakes."""
        items: list[Any] = []
        for part in parts:
            items.append(part)
            if part is BAD and len(self.diagnostics.found) > MOST_MISTAKES:
                break
        return BAD if any(item is BAD for item in items) else tuple(items)

    def _term(self, value: tree.Value, shape: shapes.SumShape, place: ValuePath) -> Any:
        """Convert a summand, with or without a weight before or after it."""
        self.parts[place] = value.span
        fields: dict[str, Any] = {}
        if isinstance(value, tree.Scaled):
            factor = shapes.arguments(shape.node)["weight"]
            fields["weight"] = self.convert(value.factor, factor, (*place, "weight"))
            value = value.term
        fields[shape.field] = self.convert(value, shape.inner, (*place, shape.field))
        return self._make(shape.node, fields, value, place)


def _kind_of(
    value: tree.Name | tree.Call, shape: shapes.KindShape
) -> tuple[tree.Name, tuple[tree.Argument, ...]]:
    """The name of a kind and its arguments; some kinds are named with the first, ``kd(logits)``."""
    if isinstance(value, tree.Name):
        return value, ()
    for first in value.arguments[:1]:
        if first.name is None and isinstance(first.value, tree.Name):
            full_name = f"{value.name.text}({first.value.text})"
            if full_name in shape.options:
                return tree.Name(value.name.span, full_name), value.arguments[1:]
    return value.name, value.arguments
