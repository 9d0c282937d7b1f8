"""A table of figures, as text for terminals and as HTML for pages and notebooks."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from bertc.base.diagnostics.render import escaped, html_text

_FIGURE = re.compile(r"[+x-]?(\d|inf|nan)|=$")


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
        widths = [max((len(t) for row in full for t in row[at]), default=0) for at in columns]
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
