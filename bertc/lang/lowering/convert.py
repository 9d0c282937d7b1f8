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
from bertc.ir.base import NAME_RULE, Node, is_plain
from bertc.ir.fixes import call_text
from bertc.ir.learning.task import NAME_PATTERN
from bertc.lang.lowering import mistakes
from bertc.lang.lowering.mistakes import BAD, Slot
from bertc.lang.read import shapes, tree
from bertc.lang.read.scan import MOST_MISTAKES
from bertc.lang.read.shapes import Shape

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

    def convert(self, value: tree.Value, shape: Shape, place: ValuePath = ()) -> Any:
        """Convert a value; returns BAD after reporting a mistake."""
        self.parts[place] = value.span
        if shape.term:
            return self._sum(value, shape.term, place)
        match value:
            case tree.Number(value=None):
                return BAD  # reported when it was read
            case tree.Number(unit="", value=int() | float() as n) if limits := shape.limits(n):
                if limits.hold(n):
                    return n if limits is shape.whole else float(n)
                return mistakes.wrong_number(value, limits, self._slot(place, value))
            case tree.Number(unit=unit) if node := shape.bare("bare_number", unit):
                return self._bare(replace(value, unit=""), node, node.bare_number, place)
            case tree.Name(text=word) if word in shape.words:
                return shape.words[word]
            case tree.Name() | tree.Call() if kind := _kind_of(value, shape):
                return self._build(*kind, value, place)
            case tree.Name(text=text) if shape.text and not (shape.words or shape.whole):
                return self._text(text, shape, value, place)
            case tree.String(value=text) if shape.text:
                return self._text(text, shape, value, place)
            case tree.String() if node := shape.bare("bare_string"):
                return self._bare(value, node, node.bare_string, place)
            case tree.Ratio(parts=of) if (node := shape.ratio) and len(of) == len(node.positional):
                arguments = [tree.Argument(part.span, None, part) for part in of]
                return self._build(shapes.kinds_of(node)[0], node, arguments, value, place)
            case tree.Series() if shape.item:
                return self._list(value, shape, shape.item, place)
            case tree.Sum() if shape.item and shape.item.words:  # words read as well with signs
                return self._list(value, shape, shape.item, place)
        return mistakes.wrong_value(shape, self._slot(place, value))

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

    def _text(self, text: str, shape: Shape, value: tree.Value, place: ValuePath) -> Any:
        """A text that its rules allow; any other is reported."""
        if shape.text and not shape.text.hold(len(text)):
            return self._slot(place, value).refuse("E109", "is empty")
        if shape.plain and not is_plain(text):
            problem = f"cannot be {value.span.text[:60]}"
            return self._slot(place, value).refuse("E109", problem, note=NAME_RULE)
        return text

    # ---- nodes

    def _bare(
        self, value: tree.Value, node: type[Node], names: tuple[str, ...], place: ValuePath
    ) -> Any:
        """Build a node from a bare number or string, which fills some of its arguments."""
        part = self.convert(value, shapes.arguments(node)[names[0]], place)
        self.parts |= {(*place, name): value.span for name in names}
        return self._make(node, dict.fromkeys(names, part), value, place)

    def _build(
        self,
        kind: str,
        node: type[Node],
        arguments: Sequence[tree.Argument],
        value: tree.Value,
        place: ValuePath,
    ) -> Any:
        """Build a node from its arguments, those without a name in the order of its fields."""
        known, needed, slot = (
            shapes.arguments(node),
            shapes.required(node),
            self._slot(place, value),
        )
        first: dict[str, tree.Argument] = {}
        fields: dict[str, Any] = {"kind": kind} if "kind" in node.model_fields else {}
        gathered: dict[str, Any] = {}
        order = iter(node.positional)
        for argument in arguments:
            name = argument.name.text if argument.name else next(order, None)
            if name is None:
                mistakes.too_many_arguments(argument, node, kind, self._slot(place, value))
            elif name not in known and not node.others:
                fitting = [n for n, s in known.items() if self._fits(argument.value, s)]
                slot = self._slot(place, value)
                mistakes.wrong_argument(argument, kind, known, fitting, slot)
            elif name in first:
                note = Note("first given here", first[name].span)
                fix = mistakes.removal(argument, value) if name in known else None
                mistakes.given_twice(name, argument.span, note, fix, self.diagnostics)
                if name not in known:
                    gathered[name] = BAD
            else:
                first[name] = argument
                shape = known[name] if name in known else shapes.other_shape(node)
                into = fields if name in known else gathered
                into[name] = self.convert(argument.value, shape, (*place, name))
        help = call_text(kind, *(f"{name}=..." for name in needed))
        for name in needed:
            if name not in first:
                self.diagnostics.error("E107", f"`{kind}` needs `{name}`", value.span, help=help)
                fields[name] = BAD
        if node.others:
            fields[node.others] = BAD if BAD in gathered.values() else tuple(gathered.items())
        return self._make(node, fields, value, place)

    def _fits(self, value: tree.Value, shape: Shape) -> bool:
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

    def _list(
        self, value: tree.Series | tree.Sum, shape: Shape, item: Shape, place: ValuePath
    ) -> Any:
        """Convert a list, of words also a sum, whose number of values its shape allows."""
        count, problem = len(value.items), ""
        if count < shape.least:
            problem = f"has {several(count, 'value')}, and needs {shape.least} or more"
        if shape.length not in (None, count):
            problem = f"has {shape.length} values, not {count}"
        if problem:
            return self._slot(place, value).refuse("E108", problem)
        return self._all(self.convert(v, item, (*place, i)) for i, v in enumerate(value.items))

    def _sum(self, value: tree.Value, term: type[Node], place: ValuePath) -> Any:
        """Convert a sum to its terms."""
        terms = value.items if isinstance(value, tree.Sum) else (value,)
        if len(terms) > MOST_SUMMANDS:
            message = f"a sum of {len(terms):,} terms; at most {MOST_SUMMANDS:,} are read"
            self.diagnostics.error("E011", message, value.span)
            return BAD
        return self._all(self._term(t, term, (*place, i)) for i, t in enumerate(terms))

    def _all(self, parts: Iterable[Any]) -> Any:
        """A tuple of parts, or BAD if any is; stops after too many mistakes."""
        items: list[Any] = []
        for part in parts:
            items.append(part)
            if part is BAD and len(self.diagnostics.found) > MOST_MISTAKES:
                break
        return BAD if any(item is BAD for item in items) else tuple(items)

    def _term(self, value: tree.Value, node: type[Node], place: ValuePath) -> Any:
        """Convert a summand, with or without a weight before or after it."""
        self.parts[place] = value.span
        parts = {"weight": value.factor} if isinstance(value, tree.Scaled) else {}
        parts[shapes.summed_field(node)] = value.term if isinstance(value, tree.Scaled) else value
        known = shapes.arguments(node)
        fields = {n: self.convert(part, known[n], (*place, n)) for n, part in parts.items()}
        return self._make(node, fields, value, place)


def _kind_of(
    value: tree.Name | tree.Call, shape: Shape
) -> tuple[str, type[Node], Sequence[tree.Argument]] | None:
    """The kind, class and arguments that a value names; None if it names none.

    Some kinds are named with the first argument, ``kd(logits)``; shorthands are arguments.
    """
    if not shape.kinds:
        return None
    call = value if isinstance(value, tree.Call) else tree.Call(value.span, value, ())
    name, arguments = call.name.text, call.arguments
    for first in arguments[:1]:
        if first.name is None and isinstance(first.value, tree.Name):
            full_name = f"{name}({first.value.text})"
            if full_name in shape.kinds:
                name, arguments = full_name, arguments[1:]
    if node := shape.kinds.get(name):
        return name, node, arguments
    for kind, node in shape.kinds.items():
        if name in shapes.shorthand_kinds(node):
            shorthand = tree.Name(value.span, node.shorthand)
            return kind, node, (tree.Argument(value.span, shorthand, value),)
    return None
