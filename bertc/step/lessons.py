"""Outputs of teachers for a task's training examples, computed once and kept in the cache."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from bertc.data import Progress, TaskSet
from bertc.data.cache.store import Facts, fingerprint, obtain
from bertc.data.examples.lessons import Lessons, counts_of, open_lessons, store_batch
from bertc.data.examples.task import in_order_of_length
from bertc.diagnostics import DataError
from bertc.ir.program.lessons import lesson_bytes, lesson_shapes
from bertc.ir.program.stage import Stage
from bertc.ir.program.teacher import FromFolder
from bertc.nn.model import Frozen
from bertc.objectives import Teaching
from bertc.step.task_feed import to_micro_batch

LESSONS_VERSION = 2
"""Goes into the names of folders: another number, and all are made anew."""
PASS_TOKENS = {"cpu": 2048, "cuda": 65536, "mps": 65536}
"""Tokens in a batch of a pass over all examples."""
MAX_PASS_EXAMPLES = 1024


class OwnRows(NamedTuple):
    """The rows of a task's training examples as a teacher reads them, and their padding."""

    task_set: TaskSet
    pad: int


def folder_of(
    cache: Path,
    stage: Stage,
    task_set: TaskSet,
    read: Sequence[OwnRows],
    sha256_by_folder: Mapping[str, str],
    how: tuple[str, str],
) -> Path:
    """The cache folder, named by all that decides what is in it.

    ``read``: the rows of each teacher. ``how``: how numbers are kept, and what teachers compute in.
    """
    frozen = [network for network in stage.networks() if not network.learned]
    wanted = [
        (term.head_name, term.pooled, term.wanted(learned=False), term.taught_by_token)
        for term in frozen[0].scored
    ]
    teachers = [
        (
            sha256_by_folder[each.source.path],
            network.body.model_dump(mode="json"),
            network.precision,
        )
        for each, network in zip(stage.teacher, frozen, strict=True)
        if isinstance(each.source, FromFolder)
    ]
    shapes = lesson_shapes(stage, task_set.task.title)
    one_per_row = task_set.one_per_row
    examples = [
        hashlib.sha256(array.tobytes()).hexdigest()
        for rows in dict.fromkeys((task_set.train, *(each.task_set.train for each in read)))
        for array in (rows.token_ids, rows.segment_ids, rows.begins, rows.words, rows.word_begins)
    ]
    widths = [shape.widths for shape in shapes]
    name = fingerprint(LESSONS_VERSION, teachers, wanted, widths, examples, one_per_row, how)
    return cache / "lessons" / name


def obtain_lessons(
    folder: Path,
    stage: Stage,
    task_set: TaskSet,
    read: Sequence[OwnRows],
    frozen: Sequence[Frozen],
    kept: Literal["fp32", "fp16"],
    progress: Progress,
) -> Lessons:
    """Open the outputs for a task's examples; ``frozen`` are asked if it is not there.

    Raises:
        DataError: a number is too large for fp16.
        CannotWriteError: the cache has no room.
    """
    shapes = lesson_shapes(stage, task_set.task.title)
    size = lesson_bytes(shapes, counts_of(task_set), kept)

    def make(temporary: Path) -> Facts:
        lessons = open_lessons(temporary, task_set, shapes, kept, "w+")
        what = f"asking the teachers about {task_set.task.title}"
        progress.begin(what, len(frozen) * len(task_set.train.owners), "rows")
        for number, (teacher, rows) in enumerate(zip(frozen, read, strict=True)):
            _ask(lessons.of_teacher(number, len(frozen)), stage, teacher, rows, progress)
        progress.end()
        return {"bytes": size}

    obtain(folder, make, progress, size)
    return open_lessons(folder, task_set, shapes, kept)


@torch.no_grad()
def _ask(
    lessons: Lessons, stage: Stage, teacher: Frozen, read: OwnRows, progress: Progress
) -> None:
    """Write the outputs of a teacher for all training rows."""
    device, teach = next(teacher.parameters()).device, Teaching(teacher)
    rows, at_once = read.task_set.train, PASS_TOKENS[device.type]
    for batch in in_order_of_length(read.task_set, rows, at_once, MAX_PASS_EXAMPLES, read.pad):
        taught = teach(to_micro_batch(batch, device, stage)).taught or {}
        said = [
            tensor.float().cpu().numpy()
            for shape in lessons.shapes
            for lesson in taught[shape.title]
            for tensor in lesson.tensors
        ]
        largest = max(float(np.abs(each).max(initial=0)) for each in said)
        if largest > float(np.finfo(lessons.files[0].dtype).max):
            raise DataError(
                f"a teacher says {largest:g}, more than fp16 holds", help="teacher_cache=fp32"
            )
        store_batch(lessons, batch, said)
        progress.advance(len(batch.rows))
