"""Elements of HTML in which all text is shown as text."""

import html
from collections.abc import Iterable, Sequence

from bertc.diagnostics import html_text, plain_text

VOID = frozenset({"img", "input", "br", "meta", "link"})


class Html(str):
    """Markup made by this file; any other text is escaped wherever it is put."""

    __slots__ = ()


Content = str | None | Iterable["Content"]
"""The content of an element: markup, text, or several of both."""


def in_picture(text: object) -> str:
    """Text for labels of pictures, which plotly reads as a kind of HTML."""
    return html.escape(plain_text(text), quote=False).replace("\n", " ")


def joined(parts: Iterable[Content]) -> Html:
    """Several contents, one after the other."""
    return Html("".join(_markup(part) for part in parts))


def element(tag: str, *content: Content, **attributes: object) -> Html:
    """An element; ``class_`` is its class, and of True an attribute has no value."""
    begin = f"<{tag}{''.join(_attribute(*each) for each in attributes.items())}>"
    return Html(begin if tag in VOID else f"{begin}{joined(content)}</{tag}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    named = name.rstrip("_").replace("_", "-")
    return f" {named}" if value is True else f' {named}="{html_text(value)}"'


def _markup(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content if isinstance(content, Html) else html_text(content)
    return joined(content)


def table_of(head: Sequence[Content], rows: Iterable[Sequence[Content]], numbers: int = 1) -> Html:
    """A table that scrolls sideways by itself; columns from ``numbers`` on are set to the right."""

    def row(tag: str, cells: Sequence[Content]) -> Html:
        return element(
            "tr",
            (
                element(tag, cell, class_="number" if at >= numbers else None)
                for at, cell in enumerate(cells)
            ),
        )

    body = element("tbody", (row("td", cells) for cells in rows))
    heading = element("thead", row("th", head)) if any(head) else None
    return element("div", element("table", heading, body), class_="wide")


def note_below(*content: Content) -> Html:
    """A remark below a picture or a table."""
    return element("p", *content, class_="note")


def folded(title: Content, *content: Content) -> Html:
    """Content that is shown when its title is clicked."""
    return element("details", element("summary", title), *content)
