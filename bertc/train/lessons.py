"""Kept outputs of teachers: settled at a run's start, computed before its first step."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from bertc.data import AnyData, TaskData
from bertc.data.cache.store import holds
from bertc.data.examples.lessons import Lessons, counts_of
from bertc.distributed.process_group import ProcessGroup
from bertc.estimate.units import bytes_text, several
from bertc.host.display import Display
from bertc.ir.program.lessons import Kept, kept_by, lesson_bytes, lesson_shapes
from bertc.ir.program.stage import Stage
from bertc.nn.model import Frozen
from bertc.planning.plan import Plan
from bertc.step.lessons import folder_of, obtain_lessons
from bertc.step.teachers import frozen_networks
from bertc.storage.paths import existing_folder
from bertc.train.session import Watched
from bertc.train.start import Start

MOST_OF_DISK = 0.1
"""Share of the free disk that ``auto`` takes."""


def _plan(start: Start, cache: Path, ranks: ProcessGroup) -> Plan:
    """The plan with how outputs of teachers are kept; of a begun run as then, where it is auto."""
    stages = start.resolved.stages
    each = zip(stages, start.corpus.stages, strict=True)
    kept = tuple(_chosen(stage, data, cache) for stage, data in each)
    if start.outside and start.outside.lock:
        nothing: Kept = "off"
        began = start.outside.lock.plan.lessons or (nothing,) * len(kept)
        written = (stage.teacher_cache != "auto" for stage in stages)
        kept = tuple(new if a else old for a, new, old in zip(written, kept, began, strict=True))
    return replace(start.plan, lessons=tuple(ranks.share(kept)))


def _chosen(stage: Stage, data: AnyData, cache: Path) -> Kept:
    kept = kept_by(stage, data.examples) if isinstance(data, TaskData) else "off"
    if isinstance(data, TaskData) and stage.teacher_cache == "auto":
        free = shutil.disk_usage(existing_folder(cache)).free
        return kept if _size(stage, data, kept) <= MOST_OF_DISK * free else "off"
    return kept


def _size(stage: Stage, data: TaskData, kept: Kept) -> int:
    return sum(
        lesson_bytes(lesson_shapes(stage, each.task.title), counts_of(each), kept)
        for each in data.sets
    )


def with_lessons(start: Start, cache: Path, display: Display, ranks: ProcessGroup) -> Start:
    """The start of a run with kept outputs of its teachers, from the cache or computed now.

    One process of each machine asks, in case machines have no disk in common.

    Raises:
        DataError: a teacher says a number that is too large for fp16.
        CannotWriteError: the cache has no room.
    """
    start = replace(start, plan=_plan(start, cache, ranks))
    teachers = ranks.share(start.outside.teachers if start.outside else {})
    stages = [
        replace(data, lessons=_lessons(start, at, data, teachers, cache, display, ranks))
        if isinstance(data, TaskData)
        else data
        for at, data in enumerate(start.corpus.stages)
    ]
    return replace(start, corpus=replace(start.corpus, stages=tuple(stages)))


def _lessons(
    start: Start,
    at: int,
    data: TaskData,
    teachers: Mapping[str, str],
    cache: Path,
    display: Display,
    ranks: ProcessGroup,
) -> tuple[Lessons, ...]:
    plan, stage, kept = start.plan, start.resolved.stages[at], start.plan.lessons[at]
    if kept == "off":
        return ()
    display.note(
        f"stage {stage.name}: what its teachers say of {several(data.examples, 'example')} is kept "
        f"in {kept}, {bytes_text(_size(stage, data, kept))} in {cache}"
    )
    how, frozen = (kept, plan.precision), tuple[Frozen, ...]()
    folders = [folder_of(cache, stage, each, teachers, how) for each in data.sets]
    if not ranks.least(all(map(holds, folders))):
        dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        seed = start.resolved.run.seed
        frozen = frozen_networks(stage, torch.device(plan.device), dtype, seed, ranks)
    lessons: tuple[Lessons, ...] = ()
    for turn in (ranks.world.size, ranks.world.per_host, 1):
        if not lessons and ranks.rank % turn == 0:
            progress = Watched(display, ranks.stop)
            lessons = tuple(
                obtain_lessons(folder, stage, data, each, frozen, kept, progress)
                for folder, each in zip(folders, data.sets, strict=True)
            )
        ranks.wait()
    return lessons
