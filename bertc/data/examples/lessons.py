"""Outputs of teachers for the training rows of a task, laid out on disk as the rows are.

Axes: r rows of a batch, s tokens of its longest, k answers of a row, w numbers of each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.data.batches.batch import token_ranges
from bertc.data.examples.task import TaskBatch, TaskSet, Taught
from bertc.ir.program.lessons import Counts, LessonShape

DTYPES = {"fp32": np.float32, "fp16": np.float16}


class Places(NamedTuple):
    """Indices of the same tokens or answers: among those of all rows, and in a batch (r*s or r*k).

    ``of_row``: places of a row of the batch.
    """

    stored: NDArray[np.int64]
    laid_out: NDArray[np.int64]
    of_row: int


@dataclass(frozen=True, eq=False)
class Lessons:
    """Teachers' outputs for a task's training rows, in files that are mapped into memory."""

    task_set: TaskSet
    shapes: tuple[LessonShape, ...]
    files: tuple[NDArray[Any], ...]  # one for each width of each shape: (tokens or answers, w)

    def of(self, batch: TaskBatch) -> dict[str, list[Taught]]:
        """Outputs for a batch, by the names of terms; 0 at padding."""
        by_term: dict[str, list[Taught]] = {}
        files = iter(self.files)
        for shape in self.shapes:
            places = places_of(batch, self.task_set, shape.by_token)
            tensors = tuple(_gather(next(files), places, batch) for _ in shape.widths)
            by_term.setdefault(shape.title, []).append(Taught(shape.share, tensors))
        return by_term

    def of_teacher(self, number: int, teachers: int) -> "Lessons":
        """The lessons of one of several teachers."""
        ends = list(accumulate((len(shape.widths) for shape in self.shapes), initial=0))
        places = range(number, len(self.shapes), teachers)
        files = (file for at in places for file in self.files[ends[at] : ends[at + 1]])
        return replace(self, shapes=tuple(self.shapes[at] for at in places), files=tuple(files))


def counts_of(task_set: TaskSet) -> Counts:
    """Rows, tokens and answers of the training examples."""
    rows = task_set.train
    return Counts(len(rows.owners), int(rows.begins[-1]), int(_begins(task_set)[-1]))


def open_lessons(
    folder: Path,
    task_set: TaskSet,
    shapes: tuple[LessonShape, ...],
    dtype: Literal["fp32", "fp16"],
    mode: Literal["r", "w+"] = "r",
) -> Lessons:
    """The files of a folder, to be read, or to be made and written."""
    counts = counts_of(task_set)
    sizes = [
        (counts.tokens if shape.by_token else counts.answers, width)
        for shape in shapes
        for width in shape.widths
    ]
    files = (
        np.memmap(folder / f"{number}.bin", DTYPES[dtype], mode, shape=size)
        for number, size in enumerate(sizes)
    )
    return Lessons(task_set, shapes, tuple(files))


def store_batch(lessons: Lessons, batch: TaskBatch, outputs: Sequence[NDArray[Any]]) -> None:
    """Store outputs for a batch, (r, s, w) or (r, k, w) each, in the order of the files."""
    widths = _by_file(lessons.shapes)
    for by_token, file, output in zip(widths, lessons.files, outputs, strict=True):
        places = places_of(batch, lessons.task_set, by_token)
        file[places.stored] = output.reshape(-1, file.shape[1])[places.laid_out]


def places_of(batch: TaskBatch, task_set: TaskSet, by_token: bool) -> Places:
    """Places of the tokens of a batch, or of its answers."""
    rows = task_set.train
    if by_token:
        stored = token_ranges(rows.begins[batch.rows], rows.lengths[batch.rows])
        return Places(stored, np.flatnonzero(batch.examples), batch.examples.shape[1])
    begins, slots = _begins(task_set), batch.positions.shape[1]
    counts_n = np.diff(begins)[batch.rows]
    row_n = np.repeat(np.arange(len(batch.examples)), batch.examples.max(1))
    used_r = np.bincount(row_n, counts_n, len(batch.examples))
    laid_out = np.flatnonzero(np.arange(slots) < used_r[:, None])
    return Places(token_ranges(begins[batch.rows], counts_n), laid_out, slots)


def _begins(task_set: TaskSet) -> NDArray[np.int64]:
    """Index of the first answer of each row: a word's where words are tagged, else the row's."""
    rows = task_set.train
    tags = task_set.task.answer.kind == "tags"
    return rows.word_begins if tags else np.arange(len(rows.owners) + 1)


def _by_file(shapes: Sequence[LessonShape]) -> Iterator[bool]:
    return (shape.by_token for shape in shapes for _ in shape.widths)


def _gather(file: NDArray[Any], places: Places, batch: TaskBatch) -> NDArray[Any]:
    rows, width = len(batch.examples), file.shape[1]
    laid_out = np.zeros((rows * places.of_row, width), file.dtype)
    laid_out[places.laid_out] = file[places.stored]
    return laid_out.reshape(rows, places.of_row, width)
