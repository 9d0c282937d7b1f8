"""Diagnostics as text: the source line, a caret under the place, notes, and help.

error[E101]: unknown setting `hiden`
  --> small.bertc:2:1
2 | hiden = 768
  | ^^^^^ did you mean `hidden`?
help: hidden

Tables of figures, as text for terminals and as HTML for pages and notebooks.
"""

import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from bertc.base.diagnostics.diagnostic import Diagnostic, Note, Span

MOST_LINES = 12
MAX_COLUMNS = 100
_TAB = 4
SECRET = re.compile(
    r"""(?<=://)(?:[^/@\s"']*:(?!\d+/)[^@\s"']*@)|(?<=https://)[^/@\s"']+@"""
    r"""|(?<=[?&])(?:x-amz-\w+|x-goog-\w+|sig|signature|\w*token)=[^&\s"']+""",
    re.IGNORECASE,
)
"""Keys, passwords and signatures in an address."""
_mask = lru_cache(1)(partial(SECRET.sub, lambda match: "*" * len(match[0])))  # one for all spans
_STYLES = {"error": "1;31", "remark": "1;33", "place": "34", "note": "1;36", "help": "1;32"}
_FIGURE = re.compile(r"[+x-]?(\d|inf|nan)|=$")


def render(diagnostics: Iterable[Diagnostic], color: bool = False) -> str:
    """The text of all diagnostics, safe for terminals: by source as first met, then by place."""
    unique = list(dict.fromkeys(diagnostics))
    sources = list(dict.fromkeys(d.span.source for d in unique if d.span))

    def place(diagnostic: Diagnostic) -> tuple[int, int]:
        span = diagnostic.span
        return (sources.index(span.source), span.start) if span else (len(sources), 0)

    return "\n\n".join(_Page(color).one(diagnostic) for diagnostic in sorted(unique, key=place))


def escaped(text: str) -> str:
    """Text made safe to print: control and direction characters become ``\\x1b`` or ``\\u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_safe(character) for character in text)


def for_terminal(text: str) -> str:
    """Make lines of foreign text safe to print; JSON stays JSON of the same value.

    Control and direction characters but tabs and line ends are escaped as JSON escapes them.
    """
    lines = []
    for line in text.split("\n"):
        signs = (c if c == "\t" or _safe(c) == c else json.dumps(c)[1:-1] for c in line)
        lines.append(line if line.isprintable() else "".join(signs))
    return "\n".join(lines)


def html_text(text: object) -> str:
    """Text as HTML, in elements and in quoted attributes; ends of lines and tabs stay."""
    # Here and not above: every command loads this file, and few of them write HTML.
    from html import escape

    lines = str(text).split("\n")
    return escape("\n".join("\t".join(map(escaped, line.split("\t"))) for line in lines))


def _safe(character: str) -> str:
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class _Page:
    def __init__(self, color: bool) -> None:
        self.color = color

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color else text

    def one(self, diagnostic: Diagnostic) -> str:
        span = diagnostic.span
        spans = [span, *(note.span for note in diagnostic.notes)]
        gutter = max((len(str(place.line)) for place in spans if place), default=1)
        word = "remark" if diagnostic.code.startswith("R") else "error"
        head = self.paint(f"{word}[{diagnostic.code}]", word)
        lines = [f"{head}: {escaped(diagnostic.message)}"]
        if span:
            lines += self.excerpt(span, diagnostic.label, gutter, "^", word)
        elif diagnostic.label:
            lines.append(f"  {escaped(diagnostic.label)}")
        help = [f"{self.paint('help', 'help')}: {escaped(diagnostic.help)}"] * bool(diagnostic.help)
        room = MOST_LINES - len(lines) - len(help)
        lines += self.notes(diagnostic.notes, gutter, room)
        return "\n".join(lines + help)

    def notes(self, notes: Sequence[Note], gutter: int, room: int) -> list[str]:
        """The notes within ``room`` lines, with their source lines as long as these fit."""
        lines: list[str] = []
        for index, note in enumerate(notes):
            lines_left = room - len(lines) - (len(notes) - index - 1)
            if lines_left < 1:
                break
            word = self.paint("note", "note")
            if note.span and lines_left >= 4:
                lines.append(f"{word}: {escaped(note.message)}")
                lines += self.excerpt(note.span, "", gutter, "-", "note")
                continue
            message = escaped(note.message + (f", at {note.span}" if note.span else ""))
            first, *more = wrap(message, MAX_COLUMNS - 6, max_lines=lines_left)
            lines += [f"{word}: {first}", *(" " * 6 + line for line in more)]
        return lines

    def excerpt(self, span: Span, label: str, gutter: int, mark: str, style: str) -> list[str]:
        """The place, its source line, and a mark under the characters of the span."""
        before, marked, after = _crop(span)
        pad, bar = " " * gutter, self.paint("|", "place")
        number = self.paint(str(span.line).rjust(gutter), "place")
        indent = " " * _cells(before)
        under = mark * max(1, _cells(marked))
        label_line = f"{under} {escaped(label)}".rstrip()
        return [
            f"{pad} {self.paint('-->', 'place')} {escaped(str(span))}",
            f"{number} {bar} {before}{marked}{after}".rstrip(),
            f"{pad} {bar} {indent}{self.paint(label_line, style)}",
        ]


def _crop(span: Span) -> tuple[str, str, str]:
    """A line cut into before, within and after the span: printable, at most WIDTH wide."""
    text = _mask(span.source.text)
    start = text.rfind("\n", 0, span.start) + 1
    line_end = text.find("\n", span.start) % (len(text) + 1)  # -1: the end of the text
    first = start if span.start - start <= MAX_COLUMNS // 2 else span.start - MAX_COLUMNS // 4
    last = min(line_end, first + MAX_COLUMNS)
    before = _printable(text[first : span.start], 0)
    if first > start:
        before = "..." + before
    marked = _printable(text[span.start : min(span.end, last)], _cells(before))
    after = _printable(text[max(span.start, min(span.end, last)) : last], _cells(before + marked))
    return before, marked, after + ("..." if last < line_end else "")


def _printable(text: str, column: int) -> str:
    """Text with tabs expanded to the next stop and unsafe characters escaped."""
    if "\t" not in text:
        return escaped(text.rstrip("\r"))
    expanded = ""
    for character in text.rstrip("\r"):
        if character == "\t":
            expanded += " " * (_TAB - (column + _cells(expanded)) % _TAB)
        else:
            expanded += escaped(character)
    return expanded


def _cells(text: str) -> int:
    """The width in terminal columns; some characters take two, some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


@dataclass(frozen=True)
class Table:
    """Rows under a head, with a title above and notes below.

    ``units`` turn the values of a column into text, ``str`` where there is none; text stays as it
    is, and None is empty. A row of one cell is a heading of the rows below it.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = ()
    units: Sequence[Callable[[Any], str]] = ()

    def __str__(self) -> str:
        """Aligned columns of plain text; a cell may have several lines."""
        cells = [list(self.head), *self._cells()]
        columns = range(max(map(len, cells), default=0))
        split = [[[escaped(t) for t in cell.split("\n")] for cell in row] for row in cells]
        full = [row for row in split if len(row) > 1 or len(columns) == 1]
        widths = [max((len(t) for row in full for t in row[n]), default=0) for n in columns]
        sides, lines = self._sides(), list[str]()
        for row in split if any(self.head) else split[1:]:
            for nth in range(max(map(len, row))):
                texts = [cell[nth] if nth < len(cell) else "" for cell in row]
                aligned = (
                    text.rjust(width) if side == "right" else text.ljust(width)
                    for text, width, side in zip(texts, widths, sides, strict=False)
                )
                lines.append("  ".join(aligned).rstrip() if len(row) > 1 else texts[0])
        title, notes = (
            [escaped(line) for text in texts for line in text.split("\n")]
            for texts in ([self.title] if self.title else [], self.notes)
        )
        return "\n".join([*title, *lines, *([""] if notes else []), *notes])

    def html(self) -> str:
        """An HTML table; its colours are those of the notebook or the page."""
        caption = '<caption style="text-align:left;caption-side:top"><b>{}</b></caption>'
        lines = ["<table>", *([caption.format(_lines([self.title]))] if self.title else [])]
        sides = self._sides()
        if any(self.head):
            cells = [_element("th", t, side) for t, side in zip(self.head, sides, strict=True)]
            lines.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
        lines.append("<tbody>")
        for row in self._cells():
            if len(row) == 1 < len(self.head):
                cells = [_element("th", row[0], "left", f' colspan="{len(self.head)}"')]
            else:
                cells = [_element("td", t, side) for t, side in zip(row, sides, strict=True)]
            lines.append(f"<tr>{''.join(cells)}</tr>")
        notes = [f"<small>{_lines(self.notes)}</small>"] if self.notes else []
        return "\n".join([*lines, "</tbody></table>", *notes])

    _repr_html_ = html

    def _cells(self) -> Iterator[list[str]]:
        for row in self.rows:
            yield [_text(v, u) for v, u in zip_longest(row, self.units[: len(row)], fillvalue=str)]

    def _sides(self) -> list[str]:
        """The side to which each column is set: "right" of one that is mostly figures."""
        rows = [row for row in self._cells() if len(row) == len(self.head)]
        columns = zip(*rows, strict=True) if rows else [()] * len(self.head)
        filled = [[bool(_FIGURE.match(cell)) for cell in column if cell] for column in columns]
        return ["right" if 2 * sum(column) > len(column) else "left" for column in filled]


class InNotebooks(ABC):
    """A value that notebooks show as its tables."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """The tables of the value."""

    def _repr_html_(self) -> str:
        return "\n".join(table.html() for table in self.tables())


def _text(value: Any, unit: Callable[[Any], str]) -> str:
    return "" if value is None else value if isinstance(value, str) else unit(value)


def _element(tag: str, text: str, side: str, more: str = "") -> str:
    return f'<{tag}{more} style="text-align:{side}">{_lines([text])}</{tag}>'


def _lines(texts: Sequence[str]) -> str:
    """Texts as HTML, a line each."""
    return "<br>".join(html_text(line) for text in texts for line in text.split("\n"))
