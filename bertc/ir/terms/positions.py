"""Names of figures of masked language modelling by what the input has at a predicted position.

``mlm`` is of all of them, ``mlm_masked`` of those whose input is [MASK], ``mlm_replaced`` of those
with another token, ``mlm_visible`` of those with the token itself. Loads no other node.
"""

from collections.abc import Container, Iterable

KINDS = ("masked", "replaced", "visible")
"""Kinds of predicted positions."""


def by_kind(name: str) -> tuple[str, ...]:
    """The names of a figure for positions of each kind."""
    return tuple(f"{name}_{kind}" for kind in KINDS)


def of_all_positions(names: Iterable[str]) -> list[str]:
    """The figures without those of one kind of position."""
    there = dict.fromkeys(names)
    parts = {part for name in there for part in by_kind(name)}
    return [name for name in there if name not in parts]


def shown_figures(names: Iterable[str]) -> list[str]:
    """The figures that are shown, and by which runs are ranked: of masked positions if there."""
    there = dict.fromkeys(names)
    return [shown_figure(name, there) for name in of_all_positions(there)]


def shown_figure(name: str, names: Container[str]) -> str:
    """The figure of masked positions in place of one of all, if it is there."""
    masked, *_ = by_kind(name)
    return masked if masked in names else name
