"""Tables as HTML, for notebooks; every text is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

from bertc.diagnostics.render import escaped


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a caption; numbers stand to the right, rows of one cell are headings.

    Colours are the notebook's own, so that it is readable in light and in dark.
    """
    lines = [
        "<table>",
        f'<caption style="text-align:left;caption-side:top"><b>{_text(title)}</b></caption>',
    ]
    if any(head):
        lines.append(f"<thead><tr>{''.join(map(_heading, head))}</tr></thead>")
    lines.append("<tbody>")
    for row in rows:
        if len(row) == 1:
            lines.append(
                f'<tr><th colspan="{len(head)}" style="text-align:left">{_text(row[0])}</th></tr>'
            )
        else:
            lines.append(f"<tr>{''.join(map(_cell, row))}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def html_lines(text: str) -> str:
    """Lines of text under a table, in small letters."""
    lines = "<br>".join(map(_text, text.splitlines()))
    return f"<small>{lines}</small>" if lines else ""


def _text(text: str) -> str:
    return escape(escaped(text))


def _heading(text: str) -> str:
    return f'<th style="text-align:left">{_text(text)}</th>'


def _cell(text: str) -> str:
    side = "right" if text[:1].isdigit() or text[:1] in ("+", "-", "=") else "left"
    return f'<td style="text-align:{side}">{_text(text)}</td>'
