"""Pictures of networks as values: boxes one above the other, and arrows between them."""

from typing import Literal, NamedTuple

BoxKind = Literal["tokens", "embeddings", "attention", "ffn", "norm", "head", "taught"]
WIDTH, GAP = 220, 28
"""Pixels of a box, and between boxes."""


class Box(NamedTuple):
    """A part around ``x`` with ``numel`` learned weights; y is negative above the ground."""

    kind: BoxKind
    lines: tuple[str, ...]
    numel: int
    x: int
    top: int
    bottom: int


class Edge(NamedTuple):
    """An arrow between boxes by number, or a frame from one to another, as they are listed."""

    kind: Literal["flow", "residual", "loop", "link", "lesson", "frame"]
    start: int
    end: int
    label: str = ""


class Picture(NamedTuple):
    """Boxes from the lowest up, network by network; a frame is after those in it."""

    title: str
    boxes: list[Box]
    edges: list[Edge]
    width: int = WIDTH
    gap: int = GAP
