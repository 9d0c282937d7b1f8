"""Kept outputs of frozen networks: settled at a run's start, computed before they are read.

Those of teachers are there before the first step; states of the network itself, where a stage
freezes all of it, when that stage begins.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from bertc.base.diagnostics import several
from bertc.base.storage.durable import free_bytes
from bertc.cost.planning.plan import Plan
from bertc.cost.units import bytes_text
from bertc.data.cache.store import holds
from bertc.data.corpus import AnyData
from bertc.data.examples.lessons import Lessons, counts_of
from bertc.data.examples.task_data import TaskData
from bertc.ir.program.lessons import Kept, kept_as, kept_by, lesson_bytes, lesson_shapes
from bertc.ir.program.network import MAIN
from bertc.ir.program.stage import Stage
from bertc.ir.program.teacher import FromFolder
from bertc.learn.step.engines import gathered
from bertc.machine.display import Display, Watched
from bertc.machine.process_group import ProcessGroup
from bertc.model.model import Frozen
from bertc.run.beginning.lessons import (
    features_folder,
    folder_of,
    obtain_features,
    obtain_lessons,
)
from bertc.run.beginning.teachers import frozen_networks
from bertc.run.models.loading import digest_of
from bertc.run.train.session import Session
from bertc.run.train.start import RunPlace, Start

MOST_OF_DISK = 0.1
"""Share of the free disk that ``auto`` takes."""


def _plan(start: Start, cache: Path, ranks: ProcessGroup) -> Plan:
    """The plan with how outputs of teachers are kept; of a begun run as then, where it is auto."""
    stages = start.resolved.stages
    pairs = zip(stages, start.corpus.stages, strict=True)
    sharded = start.plan.strategy in ("fsdp", "hsdp")
    how_kept = tuple(_chosen(stage, data, cache, sharded=sharded) for stage, data in pairs)
    if start.outside and start.outside.lock:
        nothing: Kept = "off"
        began = start.outside.lock.plan.lessons or (nothing,) * len(how_kept)
        written = (kept_as(stage) != "auto" for stage in stages)
        how_kept = tuple(
            new if a else old for a, new, old in zip(written, how_kept, began, strict=True)
        )
    return replace(start.plan, lessons=tuple(ranks.share(how_kept)))


def _chosen(stage: Stage, data: AnyData, cache: Path, *, sharded: bool) -> Kept:
    """The way that ``kept_by`` says, or off if the disk is too small for what need not be kept."""
    if not isinstance(data, TaskData):
        return "off"
    if stage.freeze == "all" and sharded:  # no process has all of the network
        return "off"
    how_kept = kept_by(stage, data.examples)
    if kept_as(stage) != "auto":
        return how_kept
    return how_kept if _size(stage, data, how_kept) <= MOST_OF_DISK * free_bytes(cache) else "off"


def _size(stage: Stage, data: TaskData, how_kept: Kept) -> int:
    return sum(
        lesson_bytes(lesson_shapes(stage, task_set.task.title), counts_of(task_set), how_kept)
        for task_set in data.sets
    )


def with_lessons(start: Start, place: RunPlace) -> Start:
    """The start of a run with kept outputs of its teachers, from the cache or computed now.

    One process of each machine asks, in case machines have no disk in common.

    Raises:
        DataError: a teacher says a number that is too large for fp16.
        CannotWriteError: the cache has no room.
    """
    ranks, cache = place.ranks, place.cache
    digests = ranks.share(start.outside.teachers if start.outside else {})
    for stage in start.resolved.stages:
        for line in _precisions(stage):
            place.display.note(line)
    start = replace(start, plan=_plan(start, cache, ranks))
    stages = [
        replace(data, lessons=_lessons(start, at, data, digests, place))
        if isinstance(data, TaskData)
        else data
        for at, data in enumerate(start.corpus.stages)
    ]
    return replace(start, corpus=replace(start.corpus, stages=tuple(stages)))


def _precisions(stage: Stage) -> Iterator[str]:
    """A line for each teacher at work that computes in a precision of its own."""
    frozen = (network for network in stage.networks() if not network.learned)
    sources = (teacher.source for teacher in stage.teacher)
    folders = (source.path for source in sources if isinstance(source, FromFolder))
    for network, folder in zip(frozen, folders, strict=False):
        if network.precision != "auto":
            yield f"stage {stage.name}: the teacher {folder} computes in {network.precision}"


def _lessons(
    start: Start, at: int, data: TaskData, digests: Mapping[str, str], place: RunPlace
) -> tuple[Lessons, ...]:
    """Kept outputs; ``digests``: the sha256 of teachers by folder."""
    plan, stage, how_kept = start.plan, start.resolved.stages[at], start.plan.lessons[at]
    if how_kept == "off" or stage.freeze == "all":
        return ()
    cache, display, ranks = place.cache, place.display, place.ranks
    _note(display, stage, "its teachers say", data, how_kept, cache)
    how, frozen = (how_kept, plan.precision), tuple[Frozen, ...]()
    folders = [folder_of(cache, stage, task_set, digests, how) for task_set in data.sets]
    if not ranks.least(all(map(holds, folders))):
        dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        seed = start.resolved.run.seed
        frozen = frozen_networks(stage, torch.device(plan.device), dtype, seed, ranks)
    pad, progress = data.vocabulary.pad, Watched(display, ranks.stop)
    return ranks.in_turn(
        lambda: tuple(
            obtain_lessons(folder, stage, task_set, pad, frozen, how_kept, progress)
            for folder, task_set in zip(folders, data.sets, strict=True)
        )
    )


def _note(
    display: Display, stage: Stage, said: str, data: TaskData, how_kept: Kept, cache: Path
) -> None:
    display.note(
        f"stage {stage.name}: what {said} of {several(data.examples, 'example')} is kept "
        f"in {how_kept}, {bytes_text(_size(stage, data, how_kept))} in {cache}"
    )


def with_features(session: Session, index: int, data: TaskData) -> TaskData:
    """The data of a stage with kept states of its wholly frozen network, where they are kept.

    Raises:
        DataError: a state is too large for fp16.
        CannotWriteError: the cache has no room.
    """
    stage, ranks, cache = session.resolved.stages[index], session.ranks, session.start.cache
    how_kept = session.plan.lessons[index] if session.plan.lessons else "off"
    if how_kept == "off" or stage.freeze != "all":
        return data
    _note(session.display, stage, "the frozen network says", data, how_kept, cache)
    of_body = {n: w for n, w in session.engine.parameters.items() if n.startswith(f"{MAIN}.")}
    sha256 = ranks.share(digest_of(gathered(of_body)))
    pad, how = data.vocabulary.pad, (how_kept, session.plan.precision)
    folders = [features_folder(cache, stage, of, pad, sha256, how) for of in data.sets]
    progress = Watched(session.display, ranks.stop)
    lessons = ranks.in_turn(
        lambda: tuple(
            obtain_features(folder, session.model, stage, task_set, pad, how_kept, progress)
            for folder, task_set in zip(folders, data.sets, strict=True)
        )
    )
    return replace(data, lessons=lessons)
