"""Written values to typed ones: a value of the tree, seen through the shape that is asked for.

Every mistake is reported at the argument that has it. What cannot be understood becomes ``BAD``,
so that one mistake is one message.
"""

from typing import Any

from pydantic import ValidationError

from bertc.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.ir.base import Node
from bertc.syntax.scalars import BAD, Scalars, described
from bertc.syntax.shapes import (
    Choice,
    Either,
    Kinds,
    Real,
    Several,
    Shape,
    Summed,
    Truth,
    Whole,
    Words,
    arguments,
    required,
)
from bertc.syntax.tree import Argument, Call, Name, Number, Ratio, Scaled, Series, Sum, Text, Value

Place = tuple[str | int, ...]


class Converter:
    """Converts one value of setting ``name``; ``parts`` collects where its pieces stand."""

    def __init__(self, name: str, diagnostics: Diagnostics) -> None:
        self.name = name
        self.diagnostics = diagnostics
        self.scalars = Scalars(diagnostics)
        self.parts: dict[Place, Span] = {}

    def convert(self, value: Value, shape: Shape, place: Place = ()) -> Any:
        """The typed value, or BAD."""
        self.parts[place] = value.span
        what = self._what(place)
        match shape:
            case Whole():
                return self.scalars.whole(value, shape, what)
            case Real():
                return self.scalars.real(value, shape, what)
            case Truth():
                return self.scalars.truth(value, what)
            case Words():
                return self.scalars.words(value, shape, what)
            case Choice():
                return self.scalars.choice(value, shape, what)
            case Kinds():
                return self._kinds(value, shape, place)
            case Several():
                return self._several(value, shape, place)
            case Summed():
                return self._summed(value, shape, place)
            case Either():
                return self.convert(value, _option(value, shape), place)

    def _what(self, place: Place) -> str:
        """The setting or argument at a place, as messages name it."""
        words = [part for part in place if isinstance(part, str)]
        return words[-1] if words else self.name

    # ---- nodes

    def _kinds(self, value: Value, shape: Kinds, place: Place) -> Any:
        match value:
            case Name() | Call():
                return self._named(value, shape, place)
            case Number() if node := shape.bare("bare_number"):
                return self._bare(value, node, node.bare_number, place)
            case Text() if node := shape.bare("bare_string"):
                return self._bare(value, node, node.bare_string, place)
            case Ratio() if not shape.named:
                (node,) = shape.options.values()
                given = tuple(Argument(part.span, None, part) for part in value.parts)
                return self._build(node, value, "", given, place)
        return self._wrong_form(value, shape, place)

    def _wrong_form(self, value: Value, shape: Kinds, place: Place) -> Any:
        what = self._what(place)
        fix = help = None
        if isinstance(value, Text):
            meant = nearest(value.value, shape.options)
            help = f"{what} = {meant}" if meant else None
            fix = Fix(value.span, meant) if meant else None
        elif isinstance(value, Sum | Scaled):
            help = "only objective and data are sums"
        elif not isinstance(value, Number) or value.value is not None:
            help = f"{what} = {_example(shape)}"
            fix = Fix(value.span, _example(shape))
        if isinstance(value, Number) and value.value is None:
            return BAD
        self.diagnostics.error(
            "E108",
            f"`{what}` cannot be {described(value)}",
            value.span,
            notes=(Note(f"it is one of: {listed(shape.options)}"),),
            help=help or "",
            fix=fix,
        )
        return BAD

    def _named(self, value: Name | Call, shape: Kinds, place: Place) -> Any:
        """A kind by its word, with arguments or without."""
        name = value if isinstance(value, Name) else value.name
        given = value.arguments if isinstance(value, Call) else ()
        node = shape.options.get(name.text)
        if node is not None:
            kind = name.text if shape.named else ""
            return self._build(node, value, kind, given, place)
        for whole in shape.options.values():
            inner = arguments(whole).get(whole.shorthand)
            if isinstance(inner, Kinds) and name.text in inner.options:
                part = self.convert(value, inner, (*place, whole.shorthand))
                return BAD if part is BAD else whole(**{whole.shorthand: part})
        self._unknown_kind(name, shape, place)
        return BAD

    def _unknown_kind(self, name: Name, shape: Kinds, place: Place) -> None:
        shorthands = [
            kind
            for node in shape.options.values()
            if isinstance(inner := arguments(node).get(node.shorthand), Kinds)
            for kind in inner.options
        ]
        known = [*shape.options, *shorthands]
        near = nearest(name.text, known)
        self.diagnostics.error(
            "E103",
            f"`{self._what(place)}` cannot be `{name.text[:40]}`",
            name.span,
            label=f"did you mean `{near}`?" if near else "",
            notes=(Note(f"it is one of: {listed(known)}"),),
            help=near,
            fix=Fix(name.span, near) if near else None,
        )

    def _bare(self, value: Value, node: type[Node], names: tuple[str, ...], place: Place) -> Any:
        """A number or string that stands for a node by filling some of its arguments."""
        shapes = arguments(node)
        part = self.convert(value, shapes[names[0]], place)
        if part is BAD:
            return BAD
        for name in names:
            self.parts[(*place, name)] = value.span
        return self._make(node, dict.fromkeys(names, part), value, place)

    def _build(
        self, node: type[Node], value: Value, kind: str, given: tuple[Argument, ...], place: Place
    ) -> Any:
        """A node from the arguments of a call."""
        shapes = arguments(node)
        fields: dict[str, Any] = {}
        placed: dict[str, Argument] = {}
        order = iter(node.positional)
        for argument in given:
            name = argument.name.text if argument.name else next(order, None)
            if name is None:
                self._too_many(argument, node, kind)
            elif name not in shapes:
                self._unknown_argument(argument, kind or self._what(place), shapes)
            elif name in placed:
                self._twice(name, argument, placed[name], kind)
            else:
                placed[name] = argument
                fields[name] = self.convert(argument.value, shapes[name], (*place, name))
        if not self._complete(node, kind, value, placed):
            return BAD
        if any(part is BAD for part in fields.values()):
            return BAD
        return self._make(node, {"kind": kind, **fields} if kind else fields, value, place)

    def _complete(
        self, node: type[Node], kind: str, value: Value, placed: dict[str, Argument]
    ) -> bool:
        missing = [name for name in required(node) if name not in placed]
        for name in missing:
            self.diagnostics.error(
                "E107",
                f"`{kind}` needs `{name}`",
                value.span,
                help=f"{kind}({', '.join(required(node))})",
            )
        return not missing

    def _make(self, node: type[Node], fields: dict[str, Any], value: Value, place: Place) -> Any:
        """The node itself. Only rules between arguments can still fail here."""
        try:
            return node(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            cause = first.get("ctx", {}).get("error")
            at = self.parts.get((*place, *first["loc"][:1]), value.span)
            message = f"`{self._what(place)}`: {cause}" if cause else "this value is not possible"
            self.diagnostics.error("E110", message, at)
            return BAD

    def _unknown_argument(self, argument: Argument, kind: str, shapes: dict[str, Shape]) -> None:
        assert argument.name is not None, "an unnamed argument takes a known name"
        near = nearest(argument.name.text, shapes)
        known = f"its arguments: {listed(shapes)}" if shapes else "it has no arguments"
        self.diagnostics.error(
            "E104",
            f"`{kind}` has no argument `{argument.name.text[:40]}`",
            argument.name.span,
            label=f"did you mean `{near}`?" if near else "",
            notes=(Note(known),),
            help=near,
            fix=Fix(argument.name.span, near) if near else None,
        )

    def _twice(self, name: str, again: Argument, first: Argument, kind: str) -> None:
        self.diagnostics.error(
            "E105",
            f"`{name}` is given twice",
            again.span,
            notes=(Note("first given here", first.span),),
            help="remove one of the two",
        )

    def _too_many(self, argument: Argument, node: type[Node], kind: str) -> None:
        count = len(node.positional)
        names = f"unnamed arguments fill: {', '.join(node.positional)}" if count else ""
        self.diagnostics.error(
            "E106",
            f"`{kind}` takes {count or 'no'} unnamed argument{'s' * (count != 1)}"
            if kind
            else f"{count} parts are expected here",
            argument.span,
            notes=(Note(names),) if names else (),
            help="remove it or name it",
        )

    # ---- lists and sums

    def _several(self, value: Value, shape: Several, place: Place) -> Any:
        if not isinstance(value, Series):
            if isinstance(value, Number) and value.value is None:
                return BAD
            text = f"[{value.span.text}]"
            self.diagnostics.error(
                "E108",
                f"`{self._what(place)}` is a list, not {described(value)}",
                value.span,
                help=text if len(text) < 60 else "put it in square brackets",
                fix=Fix(value.span, text) if shape.length in (None, 1) else None,
            )
            return BAD
        if shape.length is not None and len(value.items) != shape.length:
            self.diagnostics.error(
                "E108",
                f"`{self._what(place)}` has {shape.length} values, not {len(value.items)}",
                value.span,
            )
            return BAD
        items = [self.convert(v, shape.item, (*place, i)) for i, v in enumerate(value.items)]
        return BAD if any(item is BAD for item in items) else tuple(items)

    def _summed(self, value: Value, shape: Summed, place: Place) -> Any:
        terms = value.terms if isinstance(value, Sum) else (value,)
        items = [self._term(term, shape, (*place, i)) for i, term in enumerate(terms)]
        return BAD if any(item is BAD for item in items) else tuple(items)

    def _term(self, value: Value, shape: Summed, place: Place) -> Any:
        """A summand, with a factor before or after it or with none."""
        weight: Any = 1.0
        inner = value
        self.parts[place] = value.span
        if isinstance(value, Scaled):
            inner = value.term
            weight = self.convert(value.factor, arguments(shape.node)["weight"], (*place, "weight"))
        part = self.convert(inner, shape.inner, (*place, shape.field))
        if part is BAD or weight is BAD:
            return BAD
        return shape.node(**{"weight": weight, shape.field: part})


def _option(value: Value, shape: Either) -> Shape:
    """The option that the writing of a value points to."""
    for option in shape.options:
        match option:
            case Several() if isinstance(value, Series):
                return option
            case Real() if isinstance(value, Number) and not (
                isinstance(value.value, int) and not value.percent
            ):
                return option
    return shape.options[0]


def _example(shape: Kinds) -> str:
    return next(
        (kind for kind, node in shape.options.items() if not required(node)),
        next(iter(shape.options)),
    )
