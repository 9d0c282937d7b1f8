"""The batches of a stage that learns tasks: whose rows stand where is a function of the step alone.

Axes: r rows of a batch, s tokens of its longest, k words asked about.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.encode import TaskRows
from bertc.data.examples import Example
from bertc.data.order import permute
from bertc.data.stage import mixed
from bertc.data.vocabulary import Vocabulary
from bertc.ir.own_task import AnyTask

WIDTHS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Tokens that rows are padded to; longer ones to a multiple of 128."""


@dataclass(frozen=True)
class TaskBatch:
    """Rows of one task, padded at the end to a width of a few.

    ``positions`` hold what is read of each row: the token that stands for the whole, or the first
    of every word. ``weights`` are 0 where nothing is asked.
    """

    task: str
    token_ids: NDArray[np.int32]  # (r, s)
    segment_ids: NDArray[np.uint8]  # (r, s)
    lengths: NDArray[np.int64]  # (r,)
    positions: NDArray[np.int64]  # (r, 1) or (r, k); (r, 0) of spans
    targets: NDArray[np.float64]  # (r, 1), of spans (r, 2), of words (r, k)
    weights: NDArray[np.float32]  # (r, 1), of words (r, k); of choices whether it is there
    passage: NDArray[np.bool_]  # (r, s) where an answer may stand; (r, 0) but for spans
    rows: NDArray[np.int64]  # (r,) which rows of the task these are


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

    def train(self, step: int, rows: slice | None = None, at_once: int = 0) -> list[TaskBatch]:
        """The batch of a step in parts of at most ``at_once`` rows, those of like length together.

        ``rows`` are the examples that this process takes of it.
        """
        number, nth = self._drawn(step)
        own = self.sets[number]
        positions = np.arange(nth * self.batch, (nth + 1) * self.batch, dtype=np.int64)
        epochs, within = np.divmod(positions[rows or slice(None)], own.units)
        chosen = within.copy()
        for epoch in np.unique(epochs):
            now = epochs == epoch
            address = ("order", own.task.title, int(epoch))
            chosen[now] = permute(within[now], own.units, self.seed, *address)
        parts = cut(own.train.lengths, chosen, own.rows_an_example, at_once or self.batch)
        return [gather(own.task, own.train, part, self.vocabulary.pad) for part in parts]

    def _drawn(self, step: int) -> tuple[int, int]:
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


def gather(task: AnyTask, rows: TaskRows, chosen: NDArray[np.int64], pad: int) -> TaskBatch:
    """Some rows of a task as a batch."""
    lengths_r = rows.lengths[chosen]
    wide = width_of(int(lengths_r.max()))
    lane_s = np.arange(wide)
    real_rs = lane_s < lengths_r[:, None]
    at_rs = rows.begins[chosen][:, None] + lane_s
    token_ids = _taken(rows.token_ids, at_rs, real_rs, pad)
    segment_ids = _taken(rows.segment_ids, at_rs, real_rs, 0)
    kind = task.answer.kind
    passage = np.zeros((len(chosen), 0), dtype=np.bool_)
    if kind == "span":
        passage = (rows.offsets[np.where(real_rs, at_rs, 0), 0] >= 0) & real_rs
    if kind == "tags":
        positions, targets, weights = _words(rows, chosen)
    else:
        whole = lengths_r - 1 if rows.cls_last else np.zeros_like(lengths_r)
        positions = whole[:, None][:, : int(kind != "span")]
        targets = rows.targets[chosen]
        weights = rows.there[chosen].astype(np.float32)[:, None]
    return TaskBatch(
        task.title,
        token_ids,
        segment_ids,
        lengths_r,
        positions,
        targets,
        weights,
        passage,
        chosen,
    )


def _taken(
    flat: NDArray[Any], at_rs: NDArray[np.int64], real_rs: NDArray[np.bool_], other: int
) -> NDArray[Any]:
    found = np.full(at_rs.shape, other, dtype=flat.dtype)
    found[real_rs] = flat[at_rs[real_rs]]
    return found


def _words(
    rows: TaskRows, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float32]]:
    """First tokens of the words, their tags, and whether a tag is told and a token is there."""
    counts_r = np.diff(rows.word_begins)[chosen]
    lane_k = np.arange(width_of(max(1, int(counts_r.max()))))
    real_rk = lane_k < counts_r[:, None]
    at_rk = rows.word_begins[chosen][:, None] + lane_k
    places_rk = _taken(rows.words, at_rk, real_rk, -1)
    tags_rk = _taken(rows.tags, at_rk, real_rk, -1)
    asked_rk = (places_rk >= 0) & (tags_rk >= 0)
    return places_rk.clip(0), tags_rk.astype(np.float64), asked_rk.astype(np.float32)
