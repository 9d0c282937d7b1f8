"""Pictures of networks: boxes one above the other with arrows, as SVG."""

import html
from typing import Literal, NamedTuple

from bertc.lab_api import escaped

BoxKind = Literal["tokens", "embeddings", "attention", "ffn", "norm", "head", "taught"]
WIDTH, GAP = 220, 28
"""Pixels of a box, and between boxes."""
_COLOURS: dict[BoxKind, str] = {
    "tokens": "#ffffff", "embeddings": "#dce8f5", "attention": "#f8e7d8", "ffn": "#dff0dd",
    "norm": "#f6f0d8", "head": "#e8e0f4", "taught": "#f4e0ec",
}  # fmt: skip
_PAD, _SIDE, _MARGIN = 10, 44, 90
"""Pixels above and next to boxes in a frame, around all."""
_STYLE = """text{font:11px Helvetica,Arial,sans-serif;text-anchor:middle;fill:#555;stroke-width:4}
.title{font-size:12.5px;font-weight:600;fill:#222}.label{stroke:#fff;paint-order:stroke}
path,rect{fill:none;stroke:#777;marker-end:url(#tip)}.frame,#tip path{marker-end:none}
.link,.lesson{stroke-dasharray:4 3}#tip{overflow:visible}#tip path{fill:#777;stroke:none}"""


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


def svg(picture: Picture) -> str:
    """An SVG image of a picture."""
    boxes, beside = picture.boxes, picture.width // 2 + _MARGIN
    left, top = min(box.x for box in boxes) - beside, min(box.top for box in boxes) - picture.gap
    width, height = max(box.x for box in boxes) + beside - left, 2 * picture.gap - top
    texts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="{left} {top} {width} {height}" style="background:#fff"><style>{_STYLE}</style>',
        '<marker id="tip" refX="6" refY="3" orient="auto"><path d="M0 0L7 3L0 6z"/></marker>',
        _text("title", left + width // 2, picture.gap + 5, picture.title),
    ]
    for edge in picture.edges:
        texts += _edge(edge, picture)
    for box in boxes:
        size = f'width="{picture.width}" height="{box.bottom - box.top}" rx="5"'
        place = f'x="{box.x - picture.width // 2}" y="{box.top}" style="fill:{_COLOURS[box.kind]}"'
        texts.append(f"<rect {place} {size}/>")
        for nth, text in enumerate(box.lines):
            texts.append(_text("line" if nth else "title", box.x, box.top + 16 + 15 * nth, text))
    return "\n".join([*texts, "</svg>"])


def _edge(edge: Edge, picture: Picture) -> list[str]:
    start, end, half = picture.boxes[edge.start], picture.boxes[edge.end], picture.width // 2
    inner = [e for e in picture.edges if edge.start <= e.start and e.end <= edge.end]
    depth = sum(e.kind == "frame" for e in inner)
    low, high, side = start.bottom + depth * _PAD, end.top - depth * _PAD, half + depth * _SIDE
    roof = min(box.top for box in picture.boxes) - 14
    near, aside = half if start.x < end.x else -half, min(start.x, end.x) + half + 90
    way = {
        "frame": f"{start.x - side} {low}V{high}h{2 * side}V{low}z",
        "flow": f"{start.x} {start.top}v-18H{end.x}V{end.bottom + 1}",
        "residual": f"{end.x} {start.top + 6 - picture.gap}h{half + 16}V{end.top + 12}h-15",
        "loop": f"{start.x} {start.top - 6}h-{half + 13}V{end.bottom + 8}h{half + 12}",
        "link": f"{start.x + near} {start.bottom - 12}H{aside}V{end.bottom - 12}H{end.x - near}",
        "lesson": f"{start.x} {start.top}V{roof}H{end.x}V{end.top - 1}",
    }[edge.kind]
    x = start.x - side + 15 if edge.kind == "frame" else aside
    label = _text("label", x, (start.bottom + end.bottom) // 2 - 8, edge.label)
    return [f'<path class="{edge.kind}" d="M{way}"/>', label]


def _text(kind: str, x: int, y: int, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{html.escape(escaped(text))}</text>'
