"""The batches of a stage that learns tasks: whose rows stand where is a function of the step alone.

Axes: r rows of a batch, s tokens of its longest, k places asked about in a row, n of its examples.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.batches.order import permute
from bertc.data.batches.stage import mixed
from bertc.data.examples.encode import TaskRows
from bertc.data.layouts.example import Example
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.program.resolved import SHORTEST

WIDTHS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Tokens that rows are padded to; longer ones to a multiple of 128."""
ROOM, FEWEST_TOKENS, MULTIPLE = 1.25, 64, 8
"""A row that examples share is about this much longer than the longest of them, or so long, in
steps of so many tokens: wider rows have less padding, and more that attention has to hide."""
WORTH, WIDEST = 0.9, 1.5
"""Rows are shared where so much of the tokens is left at most, and rows are this much longer."""


@dataclass(frozen=True)
class TaskBatch:
    """Rows of one task, padded at the end, each with one of its examples or several.

    ``positions`` hold what is read of each row: the token that stands for a whole example, or the
    first of every word; of spans, the token that stands for there being no answer. ``weights`` are
    0 where nothing is asked.
    """

    task: str
    token_ids: NDArray[np.int32]  # (r, s)
    segment_ids: NDArray[np.uint8]  # (r, s)
    examples: NDArray[np.int64]  # (r, s) which of its row's a token is of, from 1; 0: padding
    positions: NDArray[np.int64]  # (r, k)
    targets: NDArray[np.float64]  # (r, k), of spans (r, k, 2) places in the row
    weights: NDArray[np.float32]  # (r, k); of choices whether it is there
    passage: NDArray[np.bool_]  # (r, s) where an answer may stand; (r, 0) but for spans
    rows: NDArray[np.int64]  # (n,) which rows of the task these are, row by row

    @property
    def shared(self) -> bool:
        """Whether any row has several examples."""
        return len(self.rows) > len(self.token_ids)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the examples of each row begin, and its padding (r, m); s where a row has fewer."""
        begins_rs = np.diff(self.examples, axis=1, prepend=-1) != 0
        seq = self.examples.shape[1]
        found = np.sort(np.where(begins_rs, np.arange(seq), seq), axis=1)
        return found[:, : begins_rs.sum(axis=1).max()]


@dataclass(frozen=True, eq=False)
class TaskSet:
    """One task: its training rows, and by name the parts that it is judged by."""

    task: AnyTask
    train: TaskRows
    parts: Mapping[str, tuple[Sequence[Example], TaskRows]]

    @property
    def rows_an_example(self) -> int:
        """Choices are read in a row each."""
        return self.task.answer.most if self.task.answer.kind == "choice" else 1

    @property
    def packs(self) -> bool:
        """Whether examples share rows; choices are compared, in a row each."""
        return self.task.answer.kind != "choice"

    @property
    def units(self) -> int:
        """What is drawn: examples, of long passages windows."""
        return len(self.train.owners) // self.rows_an_example


@dataclass(eq=False)
class TaskData:
    """Batches of ``batch`` examples, each of one task.

    Of several tasks each is drawn in proportion to (its share of the examples)^smoothing, batch by
    batch.
    """

    vocabulary: Vocabulary
    seed: int
    batch: int
    seq: int
    sets: tuple[TaskSet, ...]
    smoothing: float
    lost: int = 0

    @property
    def examples(self) -> int:
        """Examples of one pass."""
        return sum(each.units for each in self.sets)

    @property
    def tokens(self) -> int:
        """Tokens of one pass."""
        return sum(int(each.train.begins[-1]) for each in self.sets)

    @property
    def row_length(self) -> int:
        """Tokens of a row, the mean over the batches that are drawn."""
        means = [own.train.lengths.mean() for own in self.sets]
        shares = np.array([own.units for own in self.sets]) ** self.smoothing
        return math.ceil(float(np.average(means, weights=shares)))

    def train(self, step: int, rows: slice | None = None, at_once: int = 0) -> list[TaskBatch]:
        """The batch of a step in parts of at most ``at_once`` rows, those of like length together.

        ``rows`` are the examples that this process takes of it. Shorter ones share a row.
        """
        own, chosen = self.drawn(step, rows)
        parts = cut(own.train.lengths, chosen, own.rows_an_example, at_once or self.batch)
        pad = self.vocabulary.pad
        if own.packs:
            return [shared(own.task, own.train, part, pad) for part in parts]
        return [gather(own.task, own.train, part, pad) for part in parts]

    def drawn(self, step: int, rows: slice | None = None) -> tuple[TaskSet, NDArray[np.int64]]:
        """The task that a step is of, and its examples, all of them or some."""
        number, nth = self._task_of(step)
        own = self.sets[number]
        positions = np.arange(nth * self.batch, (nth + 1) * self.batch, dtype=np.int64)
        epochs, within = np.divmod(positions[rows or slice(None)], own.units)
        chosen = within.copy()
        for epoch in np.unique(epochs):
            now = epochs == epoch
            address = ("order", own.task.title, int(epoch))
            chosen[now] = permute(within[now], own.units, self.seed, *address)
        return own, chosen

    def _task_of(self, step: int) -> tuple[int, int]:
        """Which task a step is of, and how many of its batches came before."""
        if len(self.sets) == 1:
            return 0, step
        sizes = np.array([each.units for each in self.sets], dtype=np.float64)
        shares = sizes**self.smoothing
        shares *= sizes.sum() / shares.sum() / self.batch
        quotas = [max(1, round(share)) for share in shares]
        chosen, nth = mixed(np.array([step]), quotas, self.seed, "tasks")
        return int(chosen[0]), int(nth[0])


def cut(
    lengths: NDArray[np.int64], units: NDArray[np.int64], rows_each: int, at_once: int
) -> list[NDArray[np.int64]]:
    """The rows of some units in parts of at most ``at_once`` rows, those of like length together.

    All rows of a unit stand side by side in one part.
    """
    rows = units[:, None] * rows_each + np.arange(rows_each)
    longest = lengths[rows].max(1)
    order = np.argsort(longest, kind="stable")[::-1]
    each = max(1, at_once // rows_each)
    return [rows[order[i : i + each]].reshape(-1) for i in range(0, len(order), each)]


def in_order_of_length(
    own: TaskSet, rows: TaskRows, tokens: int, most: int, pad: int
) -> Iterator[TaskBatch]:
    """All rows, the longest first, in batches of about so many tokens and at most so many rows."""
    units = np.arange(len(rows.owners) // own.rows_an_example)
    lengths = rows.lengths.reshape(len(units), -1).max(1)
    order = units[np.argsort(lengths, kind="stable")[::-1]]
    at = 0
    while at < len(order):
        wide = width_of(int(lengths[order[at]])) * own.rows_an_example
        size = max(1, min(most, tokens // wide))
        (part,) = cut(rows.lengths, order[at : at + size], own.rows_an_example, len(order) * 64)
        yield gather(own.task, rows, part, pad)
        at += size


def width_of(longest: int) -> int:
    """The tokens that rows of so many are padded to."""
    fitting = (width for width in WIDTHS if width >= longest)
    return next(fitting, math.ceil(longest / 128) * 128)


def shared(task: AnyTask, rows: TaskRows, chosen: NDArray[np.int64], pad: int) -> TaskBatch:
    """Some rows of a task as a batch in which they share rows, those of about the same length.

    The longest come first: each goes where the least stands.
    """
    lengths_n = rows.lengths[chosen]
    longest = int(lengths_n.max())
    loads_r = np.zeros(math.ceil(lengths_n.sum() / max(FEWEST_TOKENS, ROOM * longest)), np.int64)
    row_n = np.zeros(len(chosen), np.int64)
    for n, length in enumerate(lengths_n.tolist()):
        row_n[n] = loads_r.argmin()
        loads_r[row_n[n]] += length
    order = np.argsort(row_n, kind="stable")
    wide, alone = math.ceil(loads_r.max() / MULTIPLE) * MULTIPLE, width_of(longest)
    saved = len(loads_r) * wide <= WORTH * len(chosen) * alone
    if not saved or wide > WIDEST * max(FEWEST_TOKENS, alone) or lengths_n.min() < SHORTEST:
        return gather(task, rows, chosen, pad)
    return _laid(task, rows, chosen[order], row_n[order], wide, pad)


def gather(task: AnyTask, rows: TaskRows, chosen: NDArray[np.int64], pad: int) -> TaskBatch:
    """Some rows of a task as a batch, each by itself."""
    wide = width_of(int(rows.lengths[chosen].max()))
    return _laid(task, rows, chosen, np.arange(len(chosen)), wide, pad)


def _laid(
    task: AnyTask,
    rows: TaskRows,
    chosen_n: NDArray[np.int64],
    row_n: NDArray[np.int64],
    wide: int,
    pad: int,
) -> TaskBatch:
    """Rows of a task laid end to end in rows of ``wide`` tokens, each in that of its number."""
    lengths_n = rows.lengths[chosen_n]
    first_n, nth_n = _before(lengths_n, row_n), _before(np.ones_like(row_n), row_n)
    count = int(row_n[-1]) + 1
    from_t = _runs(rows.begins[chosen_n], lengths_n)
    to_t = _runs(row_n * wide + first_n, lengths_n)

    def laid(flat: NDArray[Any], other: int) -> NDArray[Any]:
        found = np.full(count * wide, other, dtype=flat.dtype)
        found[to_t] = flat
        return found.reshape(count, wide)

    kind = task.answer.kind
    passage = np.zeros((count, 0), dtype=np.bool_)
    if kind == "span":
        passage = laid(rows.offsets[from_t, 0] >= 0, False)
        ends_n2 = first_n[:, None] + rows.targets[chosen_n]
        positions, targets, weights = _by_row(
            (first_n, ends_n2, rows.there[chosen_n]), count, row_n, nth_n
        )
    elif kind == "tags":
        positions, targets, weights = _words(rows, chosen_n, row_n, first_n)
    else:
        places_n = first_n + (lengths_n - 1 if rows.cls_last else 0)
        told = (places_n, rows.targets[chosen_n, 0], rows.there[chosen_n])
        positions, targets, weights = _by_row(told, count, row_n, nth_n)
    return TaskBatch(
        task.title,
        laid(rows.token_ids[from_t], pad),
        laid(rows.segment_ids[from_t], 0),
        laid(np.repeat(nth_n + 1, lengths_n), 0),
        positions,
        targets,
        weights.astype(np.float32),
        passage,
        chosen_n,
    )


def _before(counts_n: NDArray[np.int64], row_n: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many stand in an example's row before it; rows are in order."""
    before_n: NDArray[np.int64] = np.cumsum(counts_n) - counts_n
    return before_n - before_n[np.searchsorted(row_n, row_n)]


def _runs(begins_n: NDArray[np.int64], counts_n: NDArray[np.int64]) -> NDArray[np.int64]:
    """So many numbers from each beginning on, one run after another."""
    shifts_n = begins_n - (np.cumsum(counts_n) - counts_n)
    found: NDArray[np.int64] = np.arange(counts_n.sum()) + np.repeat(shifts_n, counts_n)
    return found


def _by_row(
    told: tuple[NDArray[Any], ...],
    count: int,
    row_n: NDArray[np.int64],
    nth_n: NDArray[np.int64],
) -> tuple[NDArray[Any], ...]:
    """What is told of every example, or word, in the row where it stands: (r, k, ...), else 0."""
    shape = (count, int(nth_n.max(initial=0)) + 1)
    found = tuple(np.zeros(shape + values.shape[1:], values.dtype) for values in told)
    for table, values in zip(found, told, strict=True):
        table[row_n, nth_n] = values
    return found


def _words(
    rows: TaskRows,
    chosen_n: NDArray[np.int64],
    row_n: NDArray[np.int64],
    first_n: NDArray[np.int64],
) -> tuple[NDArray[Any], ...]:
    """First tokens of the words, their tags, and whether a tag is told and a token is there."""
    counts_n = np.diff(rows.word_begins)[chosen_n]
    from_w = _runs(rows.word_begins[chosen_n], counts_n)
    places_w, tags_w = rows.words[from_w], rows.tags[from_w]
    asked_w = (places_w >= 0) & (tags_w >= 0)
    places_w = places_w.clip(0) + np.repeat(first_n, counts_n)
    nth_w = _runs(_before(counts_n, row_n), counts_n)
    told = (places_w, tags_w.clip(0).astype(np.float64), asked_w)
    return _by_row(told, int(row_n[-1]) + 1, np.repeat(row_n, counts_n), nth_w)
