"""A session from the start of a run: state on the devices, files of the run folder begun."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from bertc.base.diagnostics import StoppedError
from bertc.base.storage import durable
from bertc.ir.changing.growth import Drawn
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.learn.step.memory import Remembered, shapes, taken_up
from bertc.machine.display import SHORTEST_FORECAST_SECONDS
from bertc.machine.process_group import ProcessGroup
from bertc.run.beginning.tracking import Tracking, tracked
from bertc.run.records import checkpoints
from bertc.run.records.folder import RunFolder
from bertc.run.records.lines import Attempt, append_line
from bertc.run.records.metrics import Metrics
from bertc.run.records.state import noting_failure
from bertc.run.train.lock import write_or_check_lock
from bertc.run.train.session import Session, laid_out
from bertc.run.train.start import Outside, RunPlace, Start
from bertc.run.train.state import Progress, State, begin, restore


@contextmanager
def open_session(
    start: Start, place: RunPlace, spec_text: str, tracking: Tracking | None
) -> Iterator[Session]:
    """Begin a run in its folder, or resume the one in it.

    Raises:
        ResumeRefusedError: if the data are not those that the run was started with.
    """
    resolved, plan, outside, ranks = start.resolved, start.plan, start.outside, place.ranks
    checkpoint = outside.checkpoint if outside else None
    origin = _begun(start, outside, place, spec_text) if outside else {}
    restored = restore(checkpoint, resolved) if checkpoint else None
    progress = Progress.of(ranks.share(asdict(restored.progress if restored else Progress())))
    stage = resolved.trained_at(progress.step)
    state = restored or begin(resolved, stage, outside.source if outside else None)
    _share(state, resolved, progress.step, ranks)
    average = _average(state, stage, progress.step, ranks)
    model, engine, moments = laid_out(state.model, state.moments, plan, ranks.world)
    device = torch.device(plan.device)
    remembered = _taken_up(resolved, state, progress.step, ranks, device)
    with _metrics(start, place, progress, tracking) as lines:
        yield Session(
            start=start,
            folder=place.folder,
            display=place.display,
            ranks=ranks,
            device=device,
            metrics=lines,
            origin=origin,
            stage=stage,
            model=model,
            engine=engine,
            moments=moments,
            progress=progress,
            remembered=remembered,
            best=state.best if ranks.is_main else {},
            average={name: engine.shard(mean, name) for name, mean in average.items()},
            saved=ranks.share(progress.step if checkpoint else -1),
        )


@contextmanager
def saying_nothing_began(folder: RunFolder, ranks: ProcessGroup) -> Iterator[None]:
    """Say of a stop before a run has a folder that there is nothing to resume."""
    try:
        yield
    except StoppedError as error:
        if folder.holds_a_run or not ranks.stop.requested:
            raise
        raise type(error)(
            f"stopped before the first step: there is no run in {folder.path} yet",
            help="the same command again; a vocabulary and tokens that were ready are in the cache",
        ) from None


def _begun(start: Start, outside: Outside, place: RunPlace, spec_text: str) -> dict[str, Any]:
    """Ready the folder of the run; the digests of its lock."""
    folder, display, time = place.folder, place.display, outside.cost.time
    checkpoints.remove_unfinished(folder.checkpoints)
    origin = write_or_check_lock(start, outside, folder, spec_text, display)
    if outside.checkpoint:
        display.note(f"resuming at step {outside.checkpoint.step:,} of {start.resolved.steps:,}")
    if time.seconds_total > SHORTEST_FORECAST_SECONDS:
        steps = f"{start.resolved.steps:,} steps"
        display.note(f"{steps} are estimated to take {time.total_text} on {time.device}")
    return origin


@contextmanager
def _metrics(
    start: Start, place: RunPlace, progress: Progress, tracking: Tracking | None
) -> Iterator[Metrics | None]:
    """Open the metrics in the first process, noting there how the run is taken up and may fail.

    Each line goes to the run's trackers too.
    """
    folder, ranks, note = place.folder, place.ranks, place.display.note
    if not ranks.is_main:
        yield None
        return
    durable.remove(folder.failure)
    host, now = platform.node(), time.time()
    attempt = Attempt(progress.step, now, host, start.machine.name, ranks.world.size)
    append_line(folder.attempts, asdict(attempt))
    with (
        tracked(tracking, folder.path, start.resolved, progress.step, note) as send,
        Metrics(folder.metrics, progress.metrics_bytes, send) as lines,
        noting_failure(folder),
    ):
        yield lines


def _share(state: State, resolved: Resolved, step: int, ranks: ProcessGroup) -> None:
    """Give all processes the first one's weights and moments, unless all drew the same."""
    if step or not isinstance(resolved.run.init, Drawn):
        ranks.share_tensors({**dict(state.model.named_parameters()), **state.moments})


def _average(state: State, stage: Stage, step: int, ranks: ProcessGroup) -> dict[str, Tensor]:
    """The average of the first process's checkpoint, in all; {} if none has begun."""
    if not stage.average.begun(step):
        return {}
    means = state.average or {n: torch.empty(w.shape) for n, w in state.model.named_parameters()}
    ranks.share_tensors(means)
    return means


def _taken_up(
    resolved: Resolved, state: State, step: int, ranks: ProcessGroup, device: torch.device
) -> Remembered:
    """The memory of this process's rows, from the first process's checkpoint or of zeros."""
    stage = resolved.stage_at(step)
    if not stage.remembers(step):
        return Remembered()
    memory = state.memory or {n: torch.zeros(shape) for n, shape in shapes(stage).items()}
    ranks.share_tensors(memory)
    return taken_up(memory, stage, ranks.rows(stage.batch), state.model.compute_dtype, device)
