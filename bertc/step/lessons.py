"""Outputs of teachers for a task's training examples, computed once and kept in the cache."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from bertc.data import Progress, TaskData, TaskSet
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


def folder_of(
    cache: Path,
    stage: Stage,
    task_set: TaskSet,
    sha256_by_folder: Mapping[str, str],
    how: tuple[str, str],
) -> Path:
    """The cache folder, named by all that decides what is in it.

    ``how``: how numbers are kept, and what the teachers compute in.
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
    rows, one_per_row = task_set.train, task_set.one_per_row
    examples = [
        hashlib.sha256(array.tobytes()).hexdigest()
        for array in (rows.token_ids, rows.segment_ids, rows.begins, rows.words, rows.word_begins)
    ]
    widths = [shape.widths for shape in shapes]
    name = fingerprint(LESSONS_VERSION, teachers, wanted, widths, examples, one_per_row, how)
    return cache / "lessons" / name


def obtain_lessons(
    folder: Path,
    stage: Stage,
    data: TaskData,
    task_set: TaskSet,
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
        _ask(lessons, stage, data, frozen, progress)
        return {"bytes": size}

    obtain(folder, make, progress, size)
    return open_lessons(folder, task_set, shapes, kept)


@torch.no_grad()
def _ask(
    lessons: Lessons, stage: Stage, data: TaskData, frozen: Sequence[Frozen], progress: Progress
) -> None:
    """Write the outputs of all teachers for all training rows."""
    task_set = lessons.task_set
    device = next(frozen[0].parameters()).device
    teachings = [Teaching(each) for each in frozen]
    at_once, pad = PASS_TOKENS[device.type], data.vocabulary.pad
    rows = task_set.train
    what = f"asking the teachers about {task_set.task.title}"
    progress.begin(what, len(rows.owners), "rows")
    for batch in in_order_of_length(task_set, rows, at_once, MAX_PASS_EXAMPLES, pad):
        micro_batch = to_micro_batch(batch, device, stage)
        for teach in teachings:
            micro_batch = teach(micro_batch)
        taught = micro_batch.taught or {}
        said = [
            tensor.float().cpu().numpy()
            for title in dict.fromkeys(shape.title for shape in lessons.shapes)
            for lesson in taught[title]
            for tensor in lesson.tensors
        ]
        largest = max(float(np.abs(each).max(initial=0)) for each in said)
        if largest > float(np.finfo(lessons.files[0].dtype).max):
            raise DataError(
                f"a teacher says {largest:g}, more than fp16 holds", help="teacher_cache=fp32"
            )
        store_batch(lessons, batch, said)
        progress.advance(len(batch.rows))
    progress.end()
