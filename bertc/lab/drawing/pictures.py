"""Pictures of networks as Graphviz text, or SVG."""

import html
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from bertc import Box, Group, Picture, escaped

_COLOURS = {
    "embeddings": "#4a86c5", "attention": "#d9822b", "ffn": "#57a84a", "norm": "#c9a92c",
    "head": "#8d5fc4",
}  # fmt: skip
"""Borders by kind of box; thin layers of these fill the boxes, on light and dark backgrounds."""
_GAP, _PAD, _FRAME, _SIDE, _MARGIN = 24.0, 14.0, 34.0, 18.0, 30.0
"""Pixels between boxes, above and beside boxes in a frame, next to a residual way, around all."""
_SHAPES = (
    "text{font:11px Helvetica,Arial,sans-serif;text-anchor:middle}.flow,.link,.frame{fill:none}"
    ".title{font-size:12.5px;font-weight:600}.ground{stroke-width:0}"
    ".link,.again{stroke-dasharray:4 3}.label{paint-order:stroke;stroke-width:5}"
)
Element = Box | Group


class Rectangle(NamedTuple):
    """A rectangle in pixels around ``x``, where states flow upwards."""

    x: int
    left: int
    right: int
    top: int
    bottom: int


Rectangles = dict[Element, Rectangle]


def dot(picture: Picture) -> str:
    """Graphviz text of a picture."""
    names: dict[Box, str] = {}
    ways: list[str] = []
    nodes, _ = _nodes(picture.networks, [], names, ways)
    for start, end, label in picture.links:
        style = f"style=dashed, constraint=false, label={_quoted(label)}"
        ways.append(f"{names[start]} -> {names[end]} [{style}];")
    style = "rankdir=BT; fontname=Helvetica; node [shape=box, style=filled, fontname=Helvetica];"
    return "\n".join(["digraph {", style, *nodes, *ways, "}"])


def _nodes(
    item: Element, before: list[str], names: dict[Box, str], ways: list[str]
) -> tuple[list[str], list[str]]:
    """Lines for an item that reads boxes ``before``, and the boxes at its top."""
    first = f"box{len(names)}"
    if isinstance(item, Box):
        names[item] = first
        ways += [f"{below} -> {first};" for below in before]
        text, colour = "\n".join([item.title, *item.lines]), _COLOURS.get(item.kind, "#ffffff")
        return [f'{first} [label={_quoted(text)}, fillcolor="{colour}30"];'], [first]
    lines, tops, reads = list[str](), list[str](), before
    for inner in item.items:
        more, top = _nodes(inner, before if item.row else reads, names, ways)
        lines, tops, reads = lines + more, [*tops, *top] if item.row else top, top
    ways += [f"{below} -> {tops[0]};" for below in before if item.residual]
    if item.loops:
        ways.append(f"{tops[0]} -> {first} [constraint=false];")
    if label := item.title or f"× {item.times}" * (item.times > 1):
        lines = [f"subgraph cluster_{first} {{ label={_quoted(label)};", *lines, "}"]
    return lines, tops


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def svg(picture: Picture) -> str:
    """An SVG image of a picture, for light and dark backgrounds."""
    networks, places = picture.networks, Rectangles()
    colours = (
        f".{kind}{{fill:{hue};stroke:{hue};fill-opacity:.18}}" for kind, hue in _COLOURS.items()
    )
    width, height = (pixels + 2 * _MARGIN for pixels in _size(networks))
    _put(networks, width / 2, height - _MARGIN, places)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height + 30:.0f}" '
        f'width="{width:.0f}" height="{height + 30:.0f}">',
        f"<style>{_SHAPES}{''.join(colours)}{_ink(False)}",
        f"@media(prefers-color-scheme:dark){{{_ink(True)}}}</style>",
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker>',
        '<rect class="ground" width="100%" height="100%"/>',
        *_links(picture, places),
        *_ways(networks, places),
        *(
            line
            for box, place in places.items()
            if isinstance(box, Box)
            for line in _box(box, place)
        ),
        "</svg>",
    ]
    return "\n".join(lines)


def _size(item: Element) -> tuple[float, float]:
    """Width and height in pixels, by the letters of an average font."""
    if isinstance(item, Box):
        if item.kind == "add":
            return 18, 18
        widest = max(7.2 * len(item.title), *(6.2 * len(line) for line in item.lines), 0) + 22
        least = {"text": 0, "head": 130}.get(item.kind, 222)
        return max(widest, least), 24 + 15 * len(item.lines) + 6 * bool(item.lines)
    wide, high = zip(*map(_size, item.items), strict=True)
    gaps, framed = _gap(item) * (len(item.items) - 1), item.times > 1
    if item.row:
        return sum(wide) + gaps, max(high)
    beside, above = _FRAME * framed + _SIDE * item.residual, _PAD * framed
    return max(wide) + 2 * beside, sum(high) + gaps + 2 * above


def _gap(item: Group) -> float:
    return 2 * _MARGIN if item.row and item.title else _GAP


def _put(item: Element, x: float, bottom: float, places: Rectangles) -> None:
    """Place an item and all in it, above ``bottom``."""
    width, height = _size(item)
    sides = x, x - width / 2, x + width / 2, bottom - height, bottom
    places[item] = Rectangle(*map(round, sides))
    if isinstance(item, Box):
        return
    low, edge = bottom - _PAD * (item.times > 1), x - width / 2
    for inner in item.items:
        wide, high = _size(inner)
        _put(inner, edge + wide / 2 if item.row else x, low, places)
        low, edge = low - (high + _GAP) * (not item.row), edge + wide + _gap(item)


def _ways(item: Element, places: Rectangles) -> Iterator[str]:
    """Arrows between the items of stacks, around what is added again, and frames."""
    if isinstance(item, Box):
        return
    for inner in item.items:
        yield from _ways(inner, places)
    x, left, right, top, bottom = places[item]
    for low, high in pairwise(() if item.row else item.items):
        start = places[_ends(low, -1)[0]]
        for end in (places[box] for box in _ends(high, 0)):
            yield _path(f"M{x} {start.top}V{end.bottom + 11}H{end.x}V{end.bottom + 1}")
    if item.residual:
        add = places[_ends(item, -1)[0]]
        yield _path(f"M{x} {bottom + 8}H{right - 4}V{add.top + 9}H{add.right + 1}")
    if item.loops:
        yield _path(f"M{x} {top - 6}H{left - 10}V{bottom + 12}H{x - 1}")
    if item.title:
        yield _text(x, bottom + 18 + 20 * item.row, item.title, "line" if item.row else "title")
    if item.times > 1:
        yield _rect("frame", places[item], 8)
        yield _text(left + _FRAME / 2 + 1, (top + bottom) / 2 + 4, f"× {item.times}", "title")


def _ends(item: Element, end: int) -> list[Box]:
    """The lowest boxes of an item, or with -1 the highest."""
    if isinstance(item, Box):
        return [item]
    read = item.items if item.row else (item.items[end],)
    return [box for inner in read for box in _ends(inner, end)]


def _links(picture: Picture, places: Rectangles) -> Iterator[str]:
    """Dashed arrows, between networks or on their left."""
    columns = [places[network] for network in picture.networks.items]
    for nth, link in enumerate(picture.links):
        start, end = places[link.start], places[link.end]
        column = next(c for c in columns if c.left <= start.x <= c.right)
        low, high, aside = (
            (start.top + start.bottom) // 2,
            (end.top + end.bottom) // 2,
            8 * (nth % 4),
        )
        top, bottom = max(start.top, end.top), min(start.bottom, end.bottom)
        if link.label and top < bottom:
            low = high = (top + bottom) // 2
        x, near, far = column.left - 4 - aside, start.left, end.left - 1
        if end.left > column.right:
            x, near = column.right + 14 + aside, start.right
        elif end.right < column.left:
            far = end.right + 1
        last = f"V{high}H{far}"
        if link.end.kind == "text" and not link.label:  # there may be others next to it
            last = f"V{end.top - 12}H{end.x}V{end.top - 1}"
        yield _path(f"M{near} {low}H{x}{last}", "link")
        yield _text(x, (low + high) / 2 + 4, link.label, "label")


def _box(box: Box, place: Rectangle) -> Iterator[str]:
    yield _rect(box.kind, place, {"add": 9, "text": 11}.get(box.kind, 5))
    yield _text(place.x, place.top + (13.5 if box.kind == "add" else 17), box.title, "title")
    for nth, line in enumerate(box.lines):
        yield _text(place.x, place.top + 33 + 15 * nth, line, "line")


def _rect(kind: str, place: Rectangle, round_: int) -> str:
    size = f'width="{place.right - place.left}" height="{place.bottom - place.top}"'
    return f'<rect class="{kind}" x="{place.left}" y="{place.top}" rx="{round_}" {size}/>'


def _path(way: str, kind: str = "flow") -> str:
    return f'<path class="{kind}" d="{way}" marker-end="url(#tip)"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{html.escape(escaped(text))}</text>'


def _ink(dark: bool) -> str:
    """The colours of text, lines and background."""
    text, lines, ground = ("#eee", "#9aa0a6", "#15181c") if dark else ("#222", "#666", "#fff")
    return (
        f"text{{fill:{text}}}.line,.label,.tip{{fill:{lines}}}.flow,.link,.frame{{stroke:{lines}}}"
        f".add,.text,.again,.ground{{fill:{ground};stroke:{lines}}}.label{{stroke:{ground}}}"
    )
