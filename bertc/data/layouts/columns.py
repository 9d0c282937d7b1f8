"""Columns of a table by their names and their first cells; what they hold is a guess."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_CLASSES = 50
TEXT_COLUMNS = (
    "text",
    "question",
    "sentence",
    "sentence1",
    "sentence_a",
    "premise",
    "anchor",
    "query",
    "sent0",
    "review",
    "content",
    "body",
)
PAIR_COLUMNS = (
    "pair",
    "positive",
    "sentence2",
    "sentence_b",
    "sent1",
    "hypothesis",
    "text2",
    "text_b",
    "passage",
    "answer",
)
NEGATIVE_COLUMNS = ("negative", "neg", "hard_neg", "hard_negative")
LABEL_COLUMNS = (
    "label",
    "labels",
    "gold_label",
    "class",
    "category",
    "target",
    "sentiment",
    "stars",
    "score",
)


@dataclass(frozen=True)
class Column:
    """A column by name, and the cells of its first rows as text."""

    name: str
    cells: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The different cells, sorted."""
        return tuple(sorted({*self.cells} - {""}))

    @property
    def mean_length(self) -> float:
        """Mean number of characters."""
        return sum(map(len, self.cells)) / max(1, len(self.cells))

    @property
    def is_text(self) -> bool:
        """True of running text: words apart, or of a script without spaces, in different cells."""
        words = sum(len(each.split()) + sum(map("\u2e80".__le__, each)) for each in self.cells)
        return words >= 2 * len(self.cells) <= 10 * len(self.labels)

    @property
    def is_numbers(self) -> bool:
        """True if each cell is a number."""
        return all(number_of(cell) is not None for cell in self.cells)

    @property
    def is_score(self) -> bool:
        """True for numbers that are no names of classes: fractions, or more than twenty."""
        known = [n for cell in self.cells if (n := number_of(cell)) is not None]
        fractions = any(number % 1 for number in known)
        return bool(known) and self.is_numbers and (fractions or len({*known}) > 20)


def text_of(columns: Sequence[Column]) -> Column | None:
    """The column of the text: a usual name, else the first of two texts, or the longest cells."""
    texts = [each for each in columns if each.is_text]
    likely = texts[:1] if len(texts) == 2 else texts or columns
    longest = max(likely, key=lambda each: each.mean_length, default=None)
    return usual_column(columns, TEXT_COLUMNS) or longest


def pair_of(columns: Sequence[Column]) -> Column | None:
    """The column of a second text: a usual name, else what is the only other text."""
    taken = (text_of(columns), label_of(columns))
    others = [each for each in columns if each not in taken]
    if len(columns) > 2 or any(each.is_text for each in columns):
        others = [each for each in others if each.is_text]
    return usual_column(columns, PAIR_COLUMNS) or (others[0] if len(others) == 1 else None)


def label_of(columns: Sequence[Column]) -> Column | None:
    """The column of the label: a usual name, else the one with fewest cells that repeat."""
    if usual := usual_column(columns, LABEL_COLUMNS):
        return usual
    texts = (
        text_of(columns),
        usual_column(columns, PAIR_COLUMNS),
        usual_column(columns, NEGATIVE_COLUMNS),
    )
    others = [each for each in columns if each not in texts]
    repeating = [c for c in others if 2 <= len(c.labels) <= MOST_CLASSES]
    repeating = [each for each in repeating if 2 * len(each.labels) <= len(each.cells)]
    scores = (each for each in others if each.is_score)
    return min(repeating, key=lambda each: len(each.labels), default=next(scores, None))


@dataclass(frozen=True)
class RelatedColumns:
    """Columns of texts to embed, and of the score of a pair; None where there is none."""

    text: Column
    positive: Column | None = None
    negative: Column | None = None
    score: Column | None = None


def related_of(columns: Sequence[Column]) -> RelatedColumns:
    """Pairs, triplets or scored pairs, by ``pair_of``.

    Pairs with labels that are no numbers need not be alike: of those only the text is taken.
    """
    text, pair, label = text_of(columns), pair_of(columns), label_of(columns)
    assert text, "a table has columns"
    if not pair or pair is text:
        return RelatedColumns(text)
    if negative := usual_column(columns, NEGATIVE_COLUMNS):
        return RelatedColumns(text, pair, negative)
    if label and not label.is_numbers:
        return RelatedColumns(text)
    return RelatedColumns(text, pair, score=label)


def usual_column(columns: Sequence[Column], names: Sequence[str]) -> Column | None:
    """The column that has the first of the names, in small or capital letters."""
    spelled = {each.name.strip().lower(): each for each in columns}
    return next((spelled[name] for name in names if name in spelled), None)


def number_of(cell: str) -> float | None:
    """The number in a cell, None if it is none."""
    try:
        return float(cell)
    except ValueError:
        return None
