"""Text as HTML, the one place that escapes it."""

from bertc.base.diagnostics.render import escaped


def plain_text(text: object) -> str:
    """Text with hidden and turning characters written out, but for ends of lines and tabs."""
    lines = str(text).split("\n")
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in lines)


def html_text(text: object) -> str:
    """Text as HTML, in elements and in quoted attributes."""
    # Here and not above: every command loads this file, and few of them write HTML.
    from html import escape

    return escape(plain_text(text))
