"""Shapes: the form of settings and arguments, derived from the annotations of the IR.

The IR states types and limits once; shapes are a form that reading and printing can match on.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic.fields import FieldInfo

from bertc.ir.base import Node, plain_name
from bertc.ir.program import Settings


class Limits(NamedTuple):
    """The limits of a number; None if there is none."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def hold(self, number: float) -> bool:
        """True of a number within them."""
        above = (self.ge is None or number >= self.ge) and (self.gt is None or number > self.gt)
        below = (self.le is None or number <= self.le) and (self.lt is None or number < self.lt)
        return above and below

    def __str__(self) -> str:
        names = zip(("at least", "above", "at most", "below"), self, strict=True)
        return " and ".join(f"{name} {limit:,}" for name, limit in names if limit is not None)


class NumberShape(NamedTuple):
    """A number, or a percentage; ``integer``: a whole number alone."""

    bounds: Limits
    integer: bool


class TextShape(NamedTuple):
    """Free text, or a ``plain`` name."""

    min_length: int = 0
    plain: bool = False


class ChoiceShape(NamedTuple):
    """One of a few words, each with its value: ``true`` and ``false`` stand for truths."""

    options: dict[str, Any]


class KindShape(NamedTuple):
    """One of several node classes, by the name of its kind.

    ``named``: the classes have a field ``kind``.
    """

    options: dict[str, type[Node]]
    named: bool

    def bare(self, form: Literal["bare_number", "bare_string"]) -> type[Node] | None:
        """The class of a value written without a kind; None if there is none."""
        return next((node for node in self.options.values() if getattr(node, form)), None)

    @property
    def words(self) -> list[str]:
        """The names of the kinds, and of shorthand arguments: ``span`` for an mlm."""
        inner = (arguments(node).get(node.shorthand) for node in self.options.values())
        words = (word for i in inner if isinstance(i, KindShape) for word in i.options)
        return list(dict.fromkeys((*self.options, *words)))


class ListShape(NamedTuple):
    """A list; ``length`` None means any number of values, at least ``least``."""

    item: "Shape"
    length: int | None
    least: int = 0


class SumShape(NamedTuple):
    """A sum of terms, each a ``node`` with a weight and a ``field`` of shape ``inner``."""

    node: type[Node]
    field: str
    inner: "Shape"


class EitherShape(NamedTuple):
    """One of several shapes, distinguished by the form of the value."""

    options: tuple["Shape", ...]


ScalarShape = NumberShape | TextShape | ChoiceShape
Shape = ScalarShape | KindShape | ListShape | SumShape | EitherShape


@cache
def setting_shape(name: str) -> Shape:
    """The shape of a setting."""
    info = Settings.model_fields[name]
    return _shape(info.annotation, *info.metadata)


@cache
def block_kind(setting: str) -> tuple[str, type[Node] | None]:
    """The kind whose arguments a block gives, by the setting of its name."""
    shape = setting_shape(setting) if setting in Settings.model_fields else None
    node = shape.bare("bare_number") if isinstance(shape, KindShape) else None
    return (kinds_of(node)[0], node) if node else ("", None)


@cache
def arguments(node: type[Node]) -> dict[str, Shape]:
    """The shapes of the arguments of a node class, by name."""
    excluded = ("kind", node.others, *node.looked_up)
    return {
        name: _shape(info.annotation, *info.metadata)
        for name, info in node.model_fields.items()
        if name not in excluded
    }


@cache
def other_shape(node: type[Node]) -> Shape:
    """The shape of arguments with other names, of a node that gathers them."""
    ((_, value),) = (
        get_args(pair) for pair in get_args(node.model_fields[node.others].annotation)[:1]
    )
    return _shape(value)


def single_shapes(shape: Shape) -> Iterator[ScalarShape | KindShape]:
    """The shapes of single values among those of a shape, by way of lists, sums and options."""
    match shape:
        case ListShape(item=inner) | SumShape(inner=inner):
            yield from single_shapes(inner)
        case EitherShape(options=options):
            yield from (leaf for option in options for leaf in single_shapes(option))
        case _:
            yield shape


def bounds_of(shape: Shape) -> Limits:
    """The limits of a number of this shape, or of each in a list."""
    return next((i.bounds for i in single_shapes(shape) if isinstance(i, NumberShape)), Limits())


def choice_words(shape: Shape) -> tuple[str, ...]:
    """The words among the values of a shape that are no kinds, those in a list included."""
    choices = (leaf.options for leaf in single_shapes(shape) if isinstance(leaf, ChoiceShape))
    return tuple(word for options in choices for word in options)


def kinds_of(node: type[Node]) -> tuple[str, ...]:
    """The kinds of a node class, or its own name if it has none."""
    info = node.model_fields.get("kind")
    if info is None:
        return (re.sub(r"(?<!^)(?=[A-Z])", "-", node.__name__).lower(),)
    return tuple(str(option) for option in get_args(info.annotation))


def kinds_in(shape: Shape) -> dict[str, type[Node]]:
    """The node classes that a value of a shape may name, by their kinds."""
    kinds = (leaf for leaf in single_shapes(shape) if isinstance(leaf, KindShape) and leaf.named)
    return {kind: node for leaf in kinds for kind, node in leaf.options.items()}


def summed_field(node: type[Node]) -> str:
    """The field of a summand beside its weight; empty of a node that is none."""
    names = list(node.model_fields)
    return next(name for name in names if name != "weight") if "weight" in names else ""


def required(node: type[Node]) -> list[str]:
    """The names of the arguments without a default."""
    return [name for name, info in node.model_fields.items() if info.is_required()]


def _shape(annotation: Any, *metadata: Any) -> Shape:
    """The shape of values of a type, with what else its annotation says of them."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(*inner, *metadata)
    if origin is Literal:
        return ChoiceShape({str(option): option for option in inner})
    if origin in (Union, UnionType):
        options = [_shape(option) for option in inner]
        kinds = [option.options for option in options if isinstance(option, KindShape)]
        if len(kinds) == len(options):
            merged = {kind: node for nodes in kinds for kind, node in nodes.items()}
            return KindShape(merged, named=True)
        return EitherShape(tuple(options))
    if annotation is bool:
        return ChoiceShape({"true": True, "false": False})
    rules = [rule for m in metadata for rule in (m.metadata if isinstance(m, FieldInfo) else [m])]
    bounds = [rule for rule in rules if isinstance(rule, Ge | Gt | Le | Lt | MinLen)]
    limits = {name: limit for bound in bounds for name, limit in asdict(bound).items()}
    if annotation in (int, float):
        return NumberShape(Limits(**limits), annotation is int)
    if annotation is str:
        plain = any(getattr(rule, "func", None) is plain_name for rule in rules)
        return TextShape(limits.get("min_length", 0), plain)
    if origin is tuple:
        item, *more = inner
        if isinstance(item, type) and issubclass(item, Node) and (term := summed_field(item)):
            return SumShape(item, term, arguments(item)[term])
        length = None if more == [Ellipsis] else len(inner)
        return ListShape(_shape(item), length, limits.get("min_length", 0))
    assert issubclass(annotation, Node), f"no way to write a {annotation}"
    named = "kind" in annotation.model_fields
    return KindShape(dict.fromkeys(kinds_of(annotation), annotation), named)
