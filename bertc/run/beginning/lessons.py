"""Outputs of frozen networks for a task's training examples, computed once and kept."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.data.cache.progress import Progress
from bertc.data.cache.store import Facts, fingerprint, obtain
from bertc.data.examples.lessons import Lessons, counts_of, open_lessons, store_batch
from bertc.data.examples.task import TaskBatch, TaskSet, in_order_of_length
from bertc.ir.program.lessons import lesson_bytes, lesson_shapes
from bertc.ir.program.network import MAIN
from bertc.ir.program.stage import Stage
from bertc.ir.program.teacher import FromFolder
from bertc.learn.objectives import Teaching
from bertc.learn.objectives.answers import TaskTensors
from bertc.learn.objectives.terms import joined, states_of
from bertc.learn.step.objective import unchanging
from bertc.learn.step.task_feed import to_micro_batch
from bertc.model import Model
from bertc.model.model import Frozen

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

    ``how``: how numbers are kept, and what teachers compute in.
    """
    frozen = [network for network in stage.networks() if not network.learned]
    wanted = [
        (term.head_name, term.states.pooled, term.wanted(learned=False), term.by_token)
        for term in (one.teaching for one in frozen[0].scored)
        if term
    ]
    teachers = [
        (
            sha256_by_folder[teacher.source.path],
            network.body.model_dump(mode="json"),
            network.precision,
        )
        for teacher, network in zip(stage.teacher, frozen, strict=True)
        if isinstance(teacher.source, FromFolder)
    ]
    shapes = lesson_shapes(stage, task_set.task.title)
    rows = _digests_of(task_set), task_set.one_per_row
    widths = [shape.widths for shape in shapes]
    name = fingerprint(LESSONS_VERSION, teachers, wanted, widths, *rows, how)
    return cache / "lessons" / name


def _digests_of(task_set: TaskSet) -> list[str]:
    """sha256 of the training rows of a task."""
    rows = task_set.train
    arrays = (rows.token_ids, rows.segment_ids, rows.begins, rows.words, rows.word_begins)
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]


def obtain_lessons(
    folder: Path,
    stage: Stage,
    task_set: TaskSet,
    pad: int,
    frozen: Sequence[Frozen],
    dtype: Literal["fp32", "fp16"],
    progress: Progress,
) -> Lessons:
    """Open the outputs for a task's examples; ``frozen`` are asked if it is not there.

    Raises:
        DataError: a number is too large for fp16.
        CannotWriteError: the cache has no room.
    """
    shapes = lesson_shapes(stage, task_set.task.title)
    size = lesson_bytes(shapes, counts_of(task_set), dtype)

    def make(temporary: Path) -> Facts:
        lessons = open_lessons(temporary, task_set, shapes, dtype, "w+")
        what = f"asking the teachers about {task_set.task.title}"
        progress.begin(what, len(frozen) * len(task_set.train.owners), "rows")
        for number, teacher in enumerate(frozen):
            _ask(lessons.of_teacher(number, len(frozen)), stage, teacher, pad, progress)
        progress.end()
        return {"bytes": size}

    obtain(folder, make, progress, size)
    return open_lessons(folder, task_set, shapes, dtype)


def _ask(lessons: Lessons, stage: Stage, teacher: Frozen, pad: int, progress: Progress) -> None:
    """Write the outputs of a teacher for all training rows."""
    device, teach = next(teacher.parameters()).device, Teaching(teacher)

    def says(batch: TaskBatch) -> list[Tensor]:
        taught = teach(to_micro_batch(batch, device, stage)).taught or {}
        return [
            tensor
            for shape in lessons.shapes
            for lesson in taught[shape.title]
            for tensor in lesson.tensors
        ]

    _write(lessons, pad, device, says, ("a teacher says", "teacher_cache=fp32"), progress)


@torch.no_grad()
def _write(
    lessons: Lessons,
    pad: int,
    device: torch.device,
    says: Callable[[TaskBatch], Sequence[Tensor]],
    too_large: tuple[str, str],
    progress: Progress,
) -> None:
    """Write what a network ``says`` of all training rows; ``too_large``: who, and the help."""
    task_set, at_once = lessons.task_set, PASS_TOKENS[device.type]
    for batch in in_order_of_length(task_set, task_set.train, at_once, MAX_PASS_EXAMPLES, pad):
        tensors_said = [tensor.float().cpu().numpy() for tensor in says(batch)]
        largest = max(float(np.abs(tensor).max(initial=0)) for tensor in tensors_said)
        if largest > float(np.finfo(lessons.files[0].dtype).max):
            who, help = too_large
            raise DataError(f"{who} {largest:g}, more than fp16 holds", help=help)
        store_batch(lessons, batch, tensors_said)
        progress.advance(len(batch.rows))


def features_folder(
    cache: Path, stage: Stage, task_set: TaskSet, pad: int, sha256: str, how: tuple[str, str]
) -> Path:
    """The cache folder of a frozen network's states for a task, named by all that decides them.

    ``sha256`` is of its weights; ``how``: how numbers are kept, and what it computes in.
    """
    task = task_set.task
    shapes = [(shape.by_token, shape.widths) for shape in lesson_shapes(stage, task.title)]
    body, layers = stage.encoder.model_dump(mode="json"), task.wanted(learned=True).states
    rows = _digests_of(task_set), pad, task_set.one_per_row
    reads = task.features.model_dump(mode="json"), layers, shapes
    return cache / "lessons" / fingerprint(LESSONS_VERSION, sha256, body, *reads, *rows, how)


def obtain_features(
    folder: Path,
    model: Model,
    stage: Stage,
    task_set: TaskSet,
    pad: int,
    dtype: Literal["fp32", "fp16"],
    progress: Progress,
) -> Lessons:
    """Open the states of a frozen network for a task's examples, or compute them by ``model``.

    Raises:
        DataError, CannotWriteError: as ``obtain_lessons``.
    """
    shapes = lesson_shapes(stage, task_set.task.title)
    size = lesson_bytes(shapes, counts_of(task_set), dtype)
    network, device = stage.network(MAIN), next(model.parameters()).device
    tensors, scored = TaskTensors(task_set.task), joined([task_set.task])

    def says(batch: TaskBatch) -> Sequence[Tensor]:
        micro_batch = to_micro_batch(batch, device, stage)
        reading = micro_batch.read_by(network)
        outputs = model.read_on(reading, wanted=task_set.task.wanted(learned=True))
        states = states_of(scored, micro_batch, reading, outputs, network.body)
        layers = (*states[task_set.task.states.name], *tensors.taken(outputs, learned=True))
        return tensors.parts(layers, micro_batch.terms[task_set.task.title])

    def make(temporary: Path) -> Facts:
        lessons = open_lessons(temporary, task_set, shapes, dtype, "w+")
        what = f"reading {task_set.task.title} once, by the frozen network"
        progress.begin(what, len(task_set.train.owners), "rows")
        too_large = "a state of the frozen network is", "features_cache=fp32"
        with unchanging(model.encoder):
            _write(lessons, pad, device, says, too_large, progress)
        progress.end()
        return {"bytes": size}

    obtain(folder, make, progress, size)
    return open_lessons(folder, task_set, shapes, dtype)
