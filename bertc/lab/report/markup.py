"""Elements of HTML in which all text is shown as text."""

import html
from collections.abc import Iterable

from bertc.lab_api import escaped

VOID = frozenset({"meta", "link"})


class Html(str):
    """Markup made by this file; any other text is escaped wherever it is put."""

    __slots__ = ()


Content = str | None | Iterable["Content"]
"""The content of an element: markup, text, or several of both."""


def in_picture(text: object) -> str:
    """Text for labels of pictures, which plotly reads as a kind of HTML."""
    return html.escape(_plain(text), quote=False).replace("\n", " ")


def joined(parts: Iterable[Content]) -> Html:
    """Several contents, one after the other."""
    return Html("".join(_markup(part) for part in parts))


def element(tag: str, *content: Content, **attributes: str) -> Html:
    """An element; ``class_`` is its class."""
    named = (f' {n.rstrip("_")}="{html.escape(_plain(text))}"' for n, text in attributes.items())
    begin = f"<{tag}{''.join(named)}>"
    return Html(begin if tag in VOID else f"{begin}{joined(content)}</{tag}>")


def remark(*content: Content) -> Html:
    """A remark below a picture or a table."""
    return element("p", *content, class_="note")


def _plain(text: object) -> str:
    """Text with hidden and turning characters written out, but for ends of lines and tabs."""
    lines = str(text).split("\n")
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in lines)


def _markup(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content if isinstance(content, Html) else html.escape(_plain(content))
    return joined(content)
