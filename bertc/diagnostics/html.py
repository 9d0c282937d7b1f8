"""Text as HTML, the one place that escapes it; tables of notebooks."""

from collections.abc import Iterable, Sequence

from bertc.diagnostics.render import escaped


def plain_text(text: object) -> str:
    """Text with hidden and turning characters written out, but for ends of lines and tabs."""
    lines = str(text).split("\n")
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in lines)


def html_text(text: object) -> str:
    """Text as HTML, in elements and in quoted attributes."""
    # Here and not above: every command loads this file, and few of them write HTML.
    from html import escape

    return escape(plain_text(text))


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a caption; numbers stand to the right, rows of one cell are headings.

    Colours are the notebook's own, so that it is readable in light and in dark.
    """
    lines = [
        "<table>",
        f'<caption style="text-align:left;caption-side:top"><b>{html_text(title)}</b></caption>',
    ]
    if any(head):
        lines.append(f"<thead><tr>{''.join(map(_heading, head))}</tr></thead>")
    lines.append("<tbody>")
    for row in rows:
        if len(row) == 1:
            heading = html_text(row[0])
            lines.append(
                f'<tr><th colspan="{len(head)}" style="text-align:left">{heading}</th></tr>'
            )
        else:
            lines.append(f"<tr>{''.join(map(_cell, row))}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def html_lines(text: str) -> str:
    """Lines of text under a table, in small letters."""
    lines = "<br>".join(map(html_text, text.splitlines()))
    return f"<small>{lines}</small>" if lines else ""


def _heading(text: str) -> str:
    return f'<th style="text-align:left">{html_text(text)}</th>'


def _cell(text: str) -> str:
    side = "right" if text[:1].isdigit() or text[:1] in ("+", "-", "=") else "left"
    return f'<td style="text-align:{side}">{html_text(text)}</td>'
