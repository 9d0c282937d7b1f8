"""Tables in the terminal and in Markdown, and a picture of a table's scores."""

import re
from collections.abc import Sequence

_FIGURE = re.compile(r"[+-]?(\d|inf|nan)")


def drawn(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text; columns of figures stand to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = _of_figures(rows)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if figures else cell.ljust(width)
            for cell, width, figures in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; columns of figures stand to the right."""
    lines = [head, ["---:" if figures else "---" for figures in _of_figures(rows)], *rows]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _of_figures(rows: Sequence[Sequence[str]]) -> list[bool]:
    """True of each column whose cells begin with a digit or a sign, as far as they are filled."""
    columns = zip(*rows, strict=True)
    return [all(_FIGURE.match(cell) for cell in column if cell) for column in columns]


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
