"""The page: sections with tables and pictures in one HTML document that needs nothing else."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path

from bertc import BertcError
from bertc.lab.report.markup import Content, Html, element, joined, remark
from bertc.lab.report.pictures import Picture
from bertc.lab_api import Table

Part = Content | Table | Picture


@dataclass(frozen=True)
class Section:
    """A title, and below it markup, tables and pictures in order."""

    title: str
    body: Sequence[Part]


def section(title: str, make: Callable[[], Sequence[Part]]) -> Section:
    """A section, or in its place the reason why it cannot be made."""
    try:
        return Section(title, make())
    except (BertcError, OSError) as error:
        message = error.message if isinstance(error, BertcError) else str(error)
        help = error.help if isinstance(error, BertcError) else ""
        why = element("p", f"This part cannot be shown: {message}", class_="why")
        return Section(title, (why, remark(help) if help else None))


def document(title: str, below: str, sections: Sequence[Section]) -> str:
    """The page as text."""
    numbers = count()
    links = (element("a", one.title, href=f"#part-{n}") for n, one in enumerate(sections, 1))
    head = joined(
        (
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", title),
            element("link", rel="icon", href="data:,"),
            element("style", Html((Path(__file__).parent / "page.css").read_text())),
        )
    )
    body = joined(
        (
            element("h1", title),
            element("p", below, class_="note"),
            element("nav", links),
            (
                element("section", element("h2", one.title), _parts(one, numbers), id=f"part-{n}")
                for n, one in enumerate(sections, 1)
            ),
            remark("Made by bertc. This page is one file and loads nothing."),
        )
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def fold(title: str, table: Table) -> Html:
    """A table that is shown when its title is clicked."""
    return element("details", element("summary", title), _markup(table))


def _parts(section: Section, numbers: Iterator[int]) -> list[Html]:
    """The parts of a section as markup; pictures that follow each other are next to each other."""
    parts = list[Html]()
    for drawn, run in groupby(section.body, lambda part: isinstance(part, Picture)):
        if drawn:
            figures = [p.html(next(numbers)) for p in run if isinstance(p, Picture)]
            parts.append(element("div", figures, class_="plots"))
        else:
            parts += [_markup(part) for part in run if not isinstance(part, Picture)]
    return parts


def _markup(part: Content | Table) -> Html:
    if isinstance(part, Table):
        return element("div", Html(part.html()), class_="wide")
    return joined([part])
