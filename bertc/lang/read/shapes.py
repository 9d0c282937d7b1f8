"""Shapes: what settings and arguments may be, derived from the annotations of the IR.

The IR states types and limits once; a shape has them by the form in which a value is written.
"""

import re
from collections.abc import Mapping
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
        return " and ".join(self.named("at least", "above", "at most", "below"))

    def named(self, *names: str) -> list[str]:
        """Each limit behind the name of its sort: ``≥ 1``."""
        pairs = zip(names, self, strict=True)
        return [f"{name} {limit:,}" for name, limit in pairs if limit is not None]


class Shape(NamedTuple):
    """The values of a setting or an argument, by the form of what is written.

    ``whole``: limits of whole numbers; ``number``: of others, percentages too, and of all where no
    whole ones are meant. ``text``: limits of the length of a string, or a ``plain`` name.
    ``words``: choices with their values. ``kinds``: node classes by the names of their kinds.
    ``item``: the values of a list, ``length`` of them or any number, at least ``least``; or with
    ``term`` those of a sum, whose terms are nodes of that class, each with a weight.
    """

    whole: Limits | None = None
    number: Limits | None = None
    text: Limits | None = None
    plain: bool = False
    words: dict[str, Any] = {}
    kinds: dict[str, type[Node]] = {}
    item: "Shape | None" = None
    length: int | None = None
    least: int = 0
    term: type[Node] | None = None

    @property
    def single(self) -> "Shape":
        """The single values among them, those in a list or a sum too."""
        return either(self, self.item.single) if self.item else self

    @property
    def names(self) -> list[str]:
        """Its words, the names of its kinds, and of shorthand arguments: ``span`` for an mlm."""
        kinds = [kind for kind, node in self.kinds.items() if not node.number_unit]
        short = (name for node in self.kinds.values() for name in shorthand_kinds(node))
        return list(dict.fromkeys((*self.words, *kinds, *short)))

    def limits(self, number: float) -> Limits | None:
        """The limits of a number; None if there is none of its form."""
        return self.whole if self.whole and isinstance(number, int) else self.number

    def bare(
        self, form: Literal["bare_number", "bare_string"], unit: str = ""
    ) -> type[Node] | None:
        """The class of a value written without a kind; None if there is none."""
        fitting = (n for n in self.kinds.values() if getattr(n, form) and n.number_unit == unit)
        return next(fitting, None)

    @property
    def ratio(self) -> type[Node] | None:
        """The class of a ratio, such as ``80/10/10``; None if there is none."""
        nameless = (node for node in self.kinds.values() if "kind" not in node.model_fields)
        return next((node for node in nameless if node.positional), None)


def either(*shapes: Shape) -> Shape:
    """The shape of values of several shapes, which differ in form."""
    forms = dict[str, Any]()
    for shape in shapes:
        for form, values in zip(Shape._fields, shape, strict=True):
            if values:
                forms[form] = forms.get(form, {}) | values if isinstance(values, dict) else values
    return Shape(**forms)


@cache
def setting_shape(name: str) -> Shape:
    """The shape of a setting."""
    info = Settings.model_fields[name]
    return _shape(info.annotation, *info.metadata)


@cache
def block_kind(setting: str) -> tuple[str, type[Node] | None]:
    """The kind whose arguments a block gives, by the setting of its name."""
    node = setting in Settings.model_fields and setting_shape(setting).bare("bare_number")
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


def shorthand_kinds(node: type[Node]) -> Mapping[str, type[Node]]:
    """The kinds that stand for a whole node when they are written alone."""
    return arguments(node)[node.shorthand].kinds if node.shorthand else {}


def other_shape(node: type[Node]) -> Shape:
    """The shape of arguments with other names, of a node that gathers them."""
    pair, *_ = get_args(node.model_fields[node.others].annotation)
    return _shape(get_args(pair)[1])


def kinds_of(node: type[Node]) -> tuple[str, ...]:
    """The kinds of a node class, or its own name if it has none."""
    info = node.model_fields.get("kind")
    if info is None:
        return (re.sub(r"(?<!^)(?=[A-Z])", "-", node.__name__).lower(),)
    return tuple(str(option) for option in get_args(info.annotation))


def kinds_in(shape: Shape) -> dict[str, type[Node]]:
    """The node classes that a value of a shape may name, by their kinds."""
    kinds = shape.single.kinds.items()
    return {kind: node for kind, node in kinds if "kind" in node.model_fields}


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
        return Shape(words={str(option): option for option in inner})
    if origin in (Union, UnionType):
        return either(*map(_shape, inner))
    if annotation is bool:
        return Shape(words={"true": True, "false": False})
    rules = [rule for m in metadata for rule in (m.metadata if isinstance(m, FieldInfo) else [m])]
    bounds = [rule for rule in rules if isinstance(rule, Ge | Gt | Le | Lt)]
    limits = Limits(**{name: limit for rule in bounds for name, limit in asdict(rule).items()})
    least = next((rule.min_length for rule in rules if isinstance(rule, MinLen)), 0)
    if annotation is int:
        return Shape(whole=limits)
    if annotation is float:
        return Shape(number=limits)
    if annotation is str:
        plain = any(getattr(rule, "func", None) is plain_name for rule in rules)
        return Shape(text=Limits(ge=least), plain=plain)
    if origin is tuple:
        item, *more = inner
        if isinstance(item, type) and issubclass(item, Node) and (term := summed_field(item)):
            return Shape(item=arguments(item)[term], term=item)
        return Shape(item=_shape(item), length=None if more == [...] else len(inner), least=least)
    assert issubclass(annotation, Node), f"no way to write a {annotation}"
    return Shape(kinds=dict.fromkeys(kinds_of(annotation), annotation))
