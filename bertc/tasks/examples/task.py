"""Batches of labelled examples: padded rows, of one example each or of several.

Axes: r rows of a batch, s tokens of its longest, k output positions of a row, n examples,
w words, t tokens of all examples.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.ir.learning import AnyTask
from bertc.ir.learning.answer import Vector, rows_an_example
from bertc.tasks.examples.task_rows import ATTENDED, MATCHED, TaskRows
from bertc.tasks.layouts.example import Examples
from bertc.text.batches.batch import token_ranges
from bertc.text.batches.order import Ints, mixed, permute
from bertc.text.vocab.vocabulary import Vocabulary

SHORTEST_EXAMPLE = 3
"""Length of the shortest example in a shared row: special tokens and one token."""
WIDTHS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Widths in tokens that rows are padded to; longer ones to a multiple of 128."""
SHARED_ROW_RATIO = 1.25
"""Length of a shared row over its longest example; wider ones have more for attention to mask."""
MIN_SHARED_ROW_TOKENS = 64
"""Rows are shared up to this length even if all examples are shorter."""
SHARED_ROW_MULTIPLE_TOKENS = 8
"""Shared rows are padded to a multiple of this."""
MAX_SHARED_TOKENS_RATIO = 0.9
"""Rows are shared only if at most this fraction of the padded tokens remains."""
MAX_SHARED_WIDTH_RATIO = 1.5
"""Rows are shared only if they are at most this much wider than unshared ones."""


@dataclass(frozen=True)
class TaskBatch:
    """A batch of one task: padded rows, each of one example or several.

    ``positions`` are the tokens whose states are read: [CLS] of an example, or the first token of
    every word; for spans, the token that means no answer. ``weights`` are 0 at unused positions.
    Of vectors ``passage`` is True at the tokens that are pooled. Of named spans positions of words
    follow those of names, and ``passage`` (r, n) is True where there is a name.
    """

    task: str
    token_ids: NDArray[np.int32]  # (r, s)
    segment_ids: NDArray[np.uint8]  # (r, s)
    examples: Ints  # (r, s) index in the row of a token's example, from 1; 0: unread
    positions: Ints  # (r, k)
    targets: NDArray[np.float64]  # (r, k); of spans (r, k, 2) positions, of several (r, k, c)
    weights: NDArray[np.float32]  # (r, k); 0 for choices that do not exist
    passage: NDArray[np.bool_]  # (r, s) True where an answer may be; (r, 0) except for spans
    rows: Ints  # (n,) rows of the task, in the order of this batch
    reads_all: bool = False  # True if states of all tokens are read

    @property
    def shared(self) -> bool:
        """True if any row has several examples."""
        return len(self.rows) > len(self.token_ids)

    @property
    def starts(self) -> Ints:
        """The starts of each row's examples and of its padding (r, m); s where there are fewer."""
        begins_rs = np.diff(self.examples, axis=1, prepend=-1) != 0
        seq = self.examples.shape[1]
        starts = np.sort(np.where(begins_rs, np.arange(seq), seq), axis=1)
        return starts[:, : begins_rs.sum(axis=1).max()]


@dataclass(frozen=True, eq=False)
class TaskSet:
    """A task with its training rows, and the parts to score on by name."""

    task: AnyTask
    train: TaskRows
    parts: Mapping[str, tuple[Examples, TaskRows]]
    one_per_row: bool = False

    @property
    def rows_an_example(self) -> int:
        """Rows of an example: one for each choice or text, else 1."""
        return rows_an_example(self.task.answer)

    @property
    def packs(self) -> bool:
        """True if examples may share rows; those of several rows never do."""
        return self.rows_an_example == 1 and not self.one_per_row

    @property
    def units(self) -> int:
        """The number of units to draw: examples, or windows of long passages."""
        return len(self.train.owners) // self.rows_an_example


def cut(lengths: Ints, units: Ints, rows_each: int, at_once: int) -> list[Ints]:
    """The rows of some units in parts of at most ``at_once`` rows, longest first, units whole."""
    rows = units[:, None] * rows_each + np.arange(rows_each)
    order = np.argsort(lengths[rows].max(1), kind="stable")[::-1]
    units_each = max(1, at_once // rows_each)
    parts = range(0, len(order), units_each)
    return [rows[order[i : i + units_each]].reshape(-1) for i in parts]


def in_order_of_length(
    task_set: TaskSet, rows: TaskRows, tokens: int, most: int, pad: int
) -> Iterator[TaskBatch]:
    """Batches of all rows, longest first, of about ``tokens`` tokens and at most ``most`` units."""
    # Rows of an example are answered together, but those of texts each alone.
    answer = task_set.task.judged.answer
    together = 1 if isinstance(answer, Vector) else rows_an_example(answer)
    units = np.arange(len(rows.owners) // together)
    lengths = rows.lengths.reshape(len(units), -1).max(1)
    order = units[np.argsort(lengths, kind="stable")[::-1]]
    while len(order):
        size = max(1, min(most, tokens // (width_of(int(lengths[order[0]])) * together)))
        (part,) = cut(rows.lengths, order[:size], together, len(lengths) * 64)
        yield gather(task_set.task.judged, rows, part, pad)
        order = order[size:]


def width_of(longest: int) -> int:
    """The width in tokens that rows of ``longest`` tokens are padded to."""
    return next((width for width in WIDTHS if width >= longest), math.ceil(longest / 128) * 128)


def shared(task: AnyTask, rows: TaskRows, chosen: Ints, pad: int) -> TaskBatch:
    """A batch in which examples share rows, longest first, if that saves enough tokens."""
    lengths_n = rows.lengths[chosen]
    longest = int(lengths_n.max())
    row_length = max(MIN_SHARED_ROW_TOKENS, SHARED_ROW_RATIO * longest)
    loads_r = np.zeros(math.ceil(lengths_n.sum() / row_length), np.int64)
    row_n = np.zeros(len(chosen), np.int64)
    for n, length in enumerate(lengths_n.tolist()):
        row_n[n] = loads_r.argmin()
        loads_r[row_n[n]] += length
    order = np.argsort(row_n, kind="stable")
    width = math.ceil(loads_r.max() / SHARED_ROW_MULTIPLE_TOKENS) * SHARED_ROW_MULTIPLE_TOKENS
    unshared_width = width_of(longest)
    saves_tokens = len(loads_r) * width <= MAX_SHARED_TOKENS_RATIO * len(chosen) * unshared_width
    too_wide = width > MAX_SHARED_WIDTH_RATIO * max(MIN_SHARED_ROW_TOKENS, unshared_width)
    if not saves_tokens or too_wide or lengths_n.min() < SHORTEST_EXAMPLE:
        return gather(task, rows, chosen, pad)
    return _laid_out(task, rows, chosen[order], row_n[order], width, pad)


def gather(task: AnyTask, rows: TaskRows, chosen: Ints, pad: int) -> TaskBatch:
    """A batch of examples, each in its own row."""
    longest = int(rows.lengths[chosen].max())
    width = max(longest, min(width_of(longest), rows.seq))  # a table of positions has seq rows
    return _laid_out(task, rows, chosen, np.arange(len(chosen)), width, pad)


def _laid_out(
    task: AnyTask, rows: TaskRows, chosen_n: Ints, row_n: Ints, width: int, pad: int
) -> TaskBatch:
    """A batch of rows of ``width`` tokens, with example n in row ``row_n[n]``."""
    lengths_n = rows.lengths[chosen_n]
    first_n, nth_n = _before(lengths_n, row_n), _before(np.ones_like(row_n), row_n)
    num_rows = int(row_n[-1]) + 1
    from_t = token_ranges(rows.begins[chosen_n], lengths_n)

    def laid_out(flat: NDArray[Any], padding: int) -> NDArray[Any]:
        tokens = np.full(num_rows * width, padding, dtype=flat.dtype)
        tokens[token_ranges(row_n * width + first_n, lengths_n)] = flat
        return tokens.reshape(num_rows, width)

    readable_t, numbers_t = _readable(task, rows, from_t), np.repeat(nth_n + 1, lengths_n)
    none = np.zeros((num_rows, 0), dtype=np.bool_)
    if isinstance(task.answer, Vector) and task.answer.by_token:
        numbers_t *= (rows.uses[from_t] & ATTENDED) > 0
    if task.answer.kind in ("tags", "named-spans"):
        positions, targets, weights = _words(rows, chosen_n, row_n, first_n)
    else:
        places_n, targets_n = first_n, rows.targets[chosen_n]
        if task.answer.kind == "span":
            targets_n = first_n[:, None] + targets_n
        elif rows.cls_last and not isinstance(task.answer, Vector):
            places_n = first_n + lengths_n - 1
        targets_n = targets_n[:, 0] if targets_n.shape[1] == 1 else targets_n
        values = (places_n, targets_n, rows.exists[chosen_n])
        positions, targets, weights = _by_row(values, num_rows, row_n, nth_n)
    if task.answer.kind == "named-spans":
        at_row, at = np.nonzero(laid_out(rows.uses[from_t], 0))
        nth = np.arange(len(at)) - np.searchsorted(at_row, at_row)
        names, none = _by_row((at, np.ones(len(at), np.bool_)), num_rows, at_row, nth)
        positions = np.concatenate([names, positions], axis=1)
        before = ((0, 0), (names.shape[1], 0))
        targets, weights = np.pad(targets, before), np.pad(weights, before)
    return TaskBatch(
        task.title, laid_out(rows.token_ids[from_t], pad), laid_out(rows.segment_ids[from_t], 0),
        laid_out(numbers_t, 0), positions, targets, weights.astype(np.float32),
        none if readable_t is None else laid_out(readable_t, False), chosen_n,
        reads_all=task.reads_all,
    )  # fmt: skip


def _readable(task: AnyTask, rows: TaskRows, from_t: Ints) -> NDArray[np.bool_] | None:
    """True at tokens that may be answers, or that vectors are made of (t,); None for others."""
    answer = task.answer
    if isinstance(answer, Vector) and answer.pooling != "cls":
        by_token = answer.by_token is not None
        return (rows.uses[from_t] & MATCHED) > 0 if by_token else np.ones(len(from_t), np.bool_)
    return rows.offsets[from_t, 0] >= 0 if answer.kind == "span" else None


def _before(counts_n: Ints, row_n: Ints) -> Ints:
    """The sum of the counts before each example in its row; ``row_n`` ascends."""
    before_n: Ints = np.cumsum(counts_n) - counts_n
    return before_n - before_n[np.searchsorted(row_n, row_n)]


def _by_row(
    columns: tuple[NDArray[Any], ...], num_rows: int, row_n: Ints, nth_n: Ints
) -> tuple[NDArray[Any], ...]:
    """Values of examples or words arranged by row (r, k, ...), padded with 0."""
    shape = (num_rows, int(nth_n.max(initial=0)) + 1)
    tables = tuple(np.zeros(shape + values.shape[1:], values.dtype) for values in columns)
    for table, values in zip(tables, columns, strict=True):
        table[row_n, nth_n] = values
    return tables


def _words(rows: TaskRows, chosen_n: Ints, row_n: Ints, first_n: Ints) -> tuple[NDArray[Any], ...]:
    """First tokens of words, their tags, and weights: 0 without a tag or a token."""
    counts_n = np.diff(rows.word_begins)[chosen_n]
    from_w = token_ranges(rows.word_begins[chosen_n], counts_n)
    places_w, tags_w = rows.words[from_w], rows.tags[from_w]
    weights_w = (places_w >= 0) & (tags_w >= 0)
    places_w = places_w.clip(0) + np.repeat(first_n, counts_n)
    nth_w = token_ranges(_before(counts_n, row_n), counts_n)
    columns = (places_w, tags_w.clip(0).astype(np.float64), weights_w)
    return _by_row(columns, int(row_n[-1]) + 1, np.repeat(row_n, counts_n), nth_w)


@dataclass(eq=False)
class TaskData:
    """Batches of one task each, drawn by (its share of the examples)^smoothing."""

    vocabulary: Vocabulary
    seed: int
    batch: int
    seq: int
    sets: tuple[TaskSet, ...]
    smoothing: float
    lost: int = 0

    @property
    def examples(self) -> int:
        """The number of examples of one pass."""
        return sum(task_set.units for task_set in self.sets)

    @property
    def tokens(self) -> int:
        """The number of tokens of one pass."""
        return sum(int(task_set.train.begins[-1]) for task_set in self.sets)

    @property
    def row_length(self) -> int:
        """The mean length of a row in tokens, over the batches drawn."""
        means = [task_set.train.lengths.mean() for task_set in self.sets]
        shares = np.array([task_set.units for task_set in self.sets]) ** self.smoothing
        return math.ceil(float(np.average(means, weights=shares)))

    def train(self, step: int, rows: slice | None = None, at_once: int = 0) -> list[TaskBatch]:
        """The batch of a step, or ``rows`` of it, in parts of ``at_once`` rows by length."""
        task_set, units = self.drawn(step, rows)
        train = task_set.train
        if train.again:
            train, units = train.again(units.tolist(), self.seed, step), np.arange(len(units))
        parts = cut(train.lengths, units, task_set.rows_an_example, at_once or self.batch)
        lay_out, pad = shared if task_set.packs else gather, self.vocabulary.pad
        return [lay_out(task_set.task, train, part, pad) for part in parts]

    def drawn(self, step: int, rows: slice | None = None) -> tuple[TaskSet, NDArray[np.int64]]:
        """The task of a step, and its units: all of them, or ``rows``."""
        number, nth = 0, step
        if len(self.sets) > 1:
            sizes = np.array([task_set.units for task_set in self.sets], dtype=np.float64)
            shares = sizes**self.smoothing
            shares *= sizes.sum() / shares.sum() / self.batch
            quotas = [max(1, round(share)) for share in shares]
            numbers, draws = mixed(np.array([step]), quotas, self.seed, "tasks")
            number, nth = int(numbers[0]), int(draws[0])
        task_set = self.sets[number]
        positions = np.arange(nth * self.batch, (nth + 1) * self.batch, dtype=np.int64)
        epochs, within = np.divmod(positions[rows or slice(None)], task_set.units)
        units = within.copy()
        for epoch in np.unique(epochs):
            in_epoch = epochs == epoch
            address = ("order", task_set.task.title, int(epoch))
            units[in_epoch] = permute(within[in_epoch], task_set.units, self.seed, *address)
        return task_set, units
