"""Pictures of networks as values: boxes for their parts, and ways between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

BoxKind = Literal["embeddings", "attention", "ffn", "norm", "head", "add", "text", "again"]


@dataclass(frozen=True, eq=False)
class Box:
    """A part of a network with ``numel`` weights; ``again`` is one that was drawn before."""

    kind: BoxKind
    title: str
    lines: tuple[str, ...] = ()
    numel: int = 0


@dataclass(frozen=True, eq=False)
class Group:
    """Items from the bottom up, or in a ``row``; what is there several ``times`` has a frame.

    ``loops``: states go through the same weights again. ``residual``: what it reads is added again.
    """

    items: "tuple[Element, ...]"
    title: str = ""
    row: bool = False
    times: int = 1
    loops: bool = False
    residual: bool = False


Element = Box | Group


class Link(NamedTuple):
    """A way from box to box next to the flow of states."""

    start: Box
    end: Box
    label: str = ""


class Picture(NamedTuple):
    """A row of networks, in the order of their forward passes, and ways between boxes."""

    networks: Group
    links: list[Link]


def boxes(item: Element) -> Iterator[Box]:
    """All boxes of an item, the lowest first."""
    if isinstance(item, Box):
        yield item
    else:
        for inner in item.items:
            yield from boxes(inner)
