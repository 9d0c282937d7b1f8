"""Grids: a value with alternatives becomes the list of the values it stands for."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

from bertc.syntax.read.tree import Call, Grid, Scaled, Series, Sum, Value

MOST_POINTS = 1_000


def points(value: Value) -> int:
    """How many values a written value stands for; at least 1."""
    match value:
        case Grid():
            return sum(points(choice) for choice in value.choices)
        case _:
            return prod(points(part) for part in _parts(value)[0])


def alternatives(value: Value) -> list[Value]:
    """Every value a written value stands for, in order; the last written grid varies fastest."""
    if isinstance(value, Grid):
        return [each for choice in value.choices for each in alternatives(choice)]
    parts, rebuild = _parts(value)
    if not any(map(_has_grid, parts)):
        return [value]
    return [rebuild(list(chosen)) for chosen in product(*map(alternatives, parts))]


def _has_grid(value: Value) -> bool:
    return isinstance(value, Grid) or any(map(_has_grid, _parts(value)[0]))


def _parts(value: Value) -> tuple[list[Value], Callable[[list[Value]], Value]]:
    """The values inside a value, and how to make it again from others."""
    match value:
        case Call():
            given = value.arguments

            def call(new: list[Value]) -> Value:
                arguments = (replace(a, value=v) for a, v in zip(given, new, strict=True))
                return replace(value, arguments=tuple(arguments))

            return [argument.value for argument in given], call
        case Series():
            return list(value.items), lambda new: replace(value, items=tuple(new))
        case Sum():
            return list(value.terms), lambda new: replace(value, terms=tuple(new))
        case Scaled():
            return [value.factor, value.term], lambda new: replace(
                value, factor=new[0], term=new[1]
            )
    return [], lambda new: value
