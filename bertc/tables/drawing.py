"""Tables in the terminal."""

import re
from collections.abc import Sequence

_FIGURE = re.compile(r"[+-]?(\d|inf|nan)")


def drawn(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text, with columns of figures aligned to the right."""
    columns = [*zip(head, *rows, strict=True)]
    padded = (
        [cell.rjust(width) if figures else cell.ljust(width) for cell in column]
        for column, figures in zip(columns, of_figures(rows), strict=True)
        for width in [max(map(len, column))]
    )
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def of_figures(rows: Sequence[Sequence[str]]) -> list[bool]:
    """True of each column whose cells begin with a digit or a sign, if they are filled."""
    columns = zip(*rows, strict=True)
    return [all(_FIGURE.match(cell) for cell in column if cell) for column in columns]
