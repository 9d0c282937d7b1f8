"""Grids: expansion of a value with alternatives into the list of its values.

A range stands for its two ends.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

from bertc.lang.read.tree import Call, Grid, Range, Scaled, Series, Sum, Value

MOST_POINTS = 1_000
"""Most programs that a grid may have."""


def num_points(value: Value) -> int:
    """The number of values that a written value stands for; at least 1."""
    match value:
        case Grid():
            return sum(num_points(choice) for choice in value.choices)
        case Range():
            return 2
        case _:
            return prod(num_points(part) for part in inner_values(value)[0])


def alternatives(value: Value) -> list[Value]:
    """The values that a written value stands for; the last grid varies fastest."""
    if isinstance(value, Grid):
        return [single for choice in value.choices for single in alternatives(choice)]
    if isinstance(value, Range):
        return [value.low, value.high]
    parts, rebuild = inner_values(value)
    if not any(map(_has_grid, parts)):
        return [value]
    return [rebuild(list(chosen)) for chosen in product(*map(alternatives, parts))]


def _has_grid(value: Value) -> bool:
    return isinstance(value, Grid | Range) or any(map(_has_grid, inner_values(value)[0]))


def inner_values(value: Value) -> tuple[list[Value], Callable[[list[Value]], Value]]:
    """The values inside a value, and a function that rebuilds it from others."""
    match value:
        case Call():
            arguments = value.arguments

            def call(new: list[Value]) -> Value:
                replaced = (replace(a, value=v) for a, v in zip(arguments, new, strict=True))
                return replace(value, arguments=tuple(replaced))

            return [argument.value for argument in arguments], call
        case Series():
            return list(value.items), lambda new: replace(value, items=tuple(new))
        case Sum():
            return list(value.terms), lambda new: replace(value, terms=tuple(new))
        case Scaled():
            return [value.factor, value.term], lambda new: replace(
                value, factor=new[0], term=new[1]
            )
    return [], lambda new: value
