"""Columns of a table by their names and their first cells; what they are for is a guess."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

MOST_CLASSES = 50
TEXT_COLUMNS = (
    "text question sentence sentence1 sentence_a premise anchor query sent0 review content body"
)
PAIR_COLUMNS = "pair positive sentence2 sentence_b sent1 hypothesis text2 text_b passage answer"
NEGATIVE_COLUMNS = "negative neg hard_neg hard_negative"
LABEL_COLUMNS = "label labels gold_label class category target sentiment stars score"


@dataclass(frozen=True)
class Column:
    """A column by name, and the cells of its first rows as text."""

    name: str
    cells: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The different cells, sorted."""
        return tuple(sorted({normalize("NFC", cell.strip()) for cell in self.cells} - {""}))

    @property
    def is_text(self) -> bool:
        """True of running text: words apart, or of a script without spaces, in different cells."""
        words = sum(len(cell.split()) + sum(map("\u2e80".__le__, cell)) for cell in self.cells)
        return words >= 2 * len(self.cells) <= 10 * len(self.labels)

    @property
    def is_score(self) -> bool:
        """True for numbers that are no names of classes: fractions, or more than twenty."""
        numbers = {_number(cell) for cell in self.cells}
        return None not in numbers and (len(numbers) > 20 or any(n and n % 1 for n in numbers))


@dataclass(frozen=True)
class Roles:
    """Columns by what a task reads of them; None where there is none."""

    text: Column | None = None
    pair: Column | None = None
    negative: Column | None = None
    label: Column | None = None

    @property
    def alike(self) -> dict[str, Column]:
        """Columns embedded with the text, by argument; {} of labels that are no numbers."""
        if self.pair and self.negative:
            return {"positive": self.pair, "negative": self.negative}
        if not self.pair or (self.label and None in map(_number, self.label.cells)):
            return {}
        return {"positive": self.pair} | ({"score": self.label} if self.label else {})


def roles_of(table: Mapping[str, tuple[str, ...]]) -> Roles:
    """The roles of columns, by usual names; else by their first cells.

    The text is the first of two texts, or the longest; its pair the only other text; the label the
    column with fewest cells that repeat, or a score.
    """
    columns = [Column(n, cells) for n, cells in table.items() if "".join(cells)[:1] != "{"]
    spelled = {column.name.strip().lower(): column for column in columns}

    def usual(names: str) -> Column | None:
        return next((spelled[name] for name in names.split() if name in spelled), None)

    texts = [column for column in columns if column.is_text]
    likely = texts[:1] if len(texts) == 2 else texts or columns
    longest = max(likely, key=lambda column: sum(map(len, column.cells)), default=None)
    text, pair = usual(TEXT_COLUMNS) or longest, usual(PAIR_COLUMNS)
    label, negative = usual(LABEL_COLUMNS), usual(NEGATIVE_COLUMNS)
    if not label:
        others = [c for c in columns if c not in (text, pair, negative) and all(c.cells)]
        repeating = [c for c in others if 2 <= len(c.labels) <= min(MOST_CLASSES, len(c.cells) / 2)]
        score = next((column for column in others if column.is_score), None)
        label = min(repeating, key=lambda column: len(column.labels), default=score)
    second = texts if texts or columns[2:] else columns
    rest = [column for column in second if column not in (text, label, negative)]
    if not pair and len(rest) == 1:
        pair = rest[0]
    return Roles(text, None if pair is text else pair, negative, label)


def _number(cell: str) -> float | None:
    try:
        return float(cell) if math.isfinite(float(cell)) else None
    except ValueError:
        return None
