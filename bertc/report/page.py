"""The page: sections with their pictures in one HTML document that needs nothing else."""

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from bertc.diagnostics import BertcError
from bertc.report.markup import Content, Html, element, joined
from bertc.report.plotly_js import plotly_js
from bertc.storage.plain_file import read_text

LARGEST_PART = 2**20
FAILED = "Pictures could not be drawn: they need a browser of 2023 or later, with JavaScript."


@dataclass(frozen=True)
class Picture:
    """A figure of plotly as JSON values.

    ``along`` are the places of each trace's points by the name of an axis, ``marks`` those of its
    vertical lines; ``smooth`` are smoothed values of each trace. ``scales`` may have a logarithmic
    axis of values. ``names`` are those of each trace's points in order, each with how many it has.
    """

    figure: Mapping[str, Any]
    along: Mapping[str, Sequence[Sequence[float | None]]] | None = None
    smooth: Sequence[Sequence[float | None]] | None = None
    marks: Mapping[str, Sequence[float]] | None = None
    scales: bool = False
    names: Sequence[Sequence[tuple[str, int]]] | None = None

    def as_json(self) -> dict[str, Any]:
        """The JSON that the page's script reads."""
        told = {
            name: getattr(self, name) for name in ("along", "smooth", "marks", "scales", "names")
        }
        return {"figure": self.figure, **{name: each for name, each in told.items() if each}}


@dataclass(frozen=True)
class Section:
    """A title, and below it markup and pictures in order."""

    title: str
    body: Sequence[Content | Picture]


def section(title: str, make: Callable[[], Sequence[Content | Picture]]) -> Section:
    """A section, or in its place why it cannot be made."""
    try:
        return Section(title, make())
    except (BertcError, OSError) as error:
        message = error.message if isinstance(error, BertcError) else str(error)
        help = error.help if isinstance(error, BertcError) else ""
        why = element("p", f"This part cannot be shown: {message}", class_="why")
        return Section(title, (why, element("p", help, class_="note") if help else None))


def document(title: str, below: Content, sections: Sequence[Section]) -> str:
    """The page as text."""
    pictures: list[Picture] = []
    bodies = [_section(f"part-{n}", each, pictures) for n, each in enumerate(sections, 1)]
    links = (element("a", each.title, href=f"#part-{n}") for n, each in enumerate(sections, 1))
    head = joined(
        (
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", title),
            element("link", rel="icon", href="data:,"),
            element("style", Html(_part("page.css"))),
        )
    )
    body = joined(
        (
            element("header", element("h1", title), element("p", below, class_="sub")),
            element("nav", element("div", links)) if len(sections) > 1 else None,
            element("p", FAILED, class_="why", id="failed", hidden=True),
            element("main", bodies),
            element("footer", "Made by bertc. This page is one file and loads nothing."),
            packed_script("plotly", plotly_js().encode()) if pictures else None,
            packed_script("pictures", _as_json([each.as_json() for each in pictures])),
            element("script", Html(_part("page.js") + _part("attention.js"))),
        )
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _section(name: str, each: Section, pictures: list[Picture]) -> Html:
    """A section as markup; its pictures join those of the page, side by side where they follow."""
    parts: list[Content] = []
    for drawn, run in groupby(each.body, lambda part: isinstance(part, Picture)):
        if drawn:
            figures = [_figure(part, pictures) for part in run if isinstance(part, Picture)]
            parts.append(element("div", figures, class_="plots"))
        else:
            parts += [part for part in run if not isinstance(part, Picture)]
    return element("section", element("h2", each.title), parts, id=name)


def _figure(picture: Picture, pictures: list[Picture]) -> Html:
    pictures.append(picture)
    height = picture.figure["layout"].get("height", 300)
    plot = element(
        "div", class_="plot", data_picture=len(pictures) - 1, style=f"height: {height}px"
    )
    return element("figure", plot)


def packed_script(name: str, content: bytes) -> Html:
    """Bytes in the page, compressed, for ``unpacked(name)`` of its script."""
    text = base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()
    return element("script", Html(text), id=name, type="application/octet-stream")


def _as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _part(name: str) -> str:
    return read_text(Path(__file__).parent / name, LARGEST_PART)
