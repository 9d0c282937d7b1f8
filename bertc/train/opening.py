"""The start of a run in its folder, or its resumption from the newest checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch

from bertc.data import PreparedCorpus, prepare
from bertc.diagnostics import DataError, UsageError
from bertc.distributed.process_group import ProcessGroup
from bertc.host.display import Display
from bertc.ir.network.growth import FromRun
from bertc.ir.program.resolved import Resolved
from bertc.nn.exact import preparing
from bertc.planning.plan import Plan
from bertc.runs import checkpoints, metrics
from bertc.runs.folder import RunFolder, identity
from bertc.runs.lock import Lock
from bertc.runs.metrics import Metrics, NoMetrics
from bertc.step.memory import Remembered, shapes, taken_up
from bertc.step.teachers import require_weights
from bertc.step.vocabulary import vocab_tensors
from bertc.storage.paths import is_taken
from bertc.train.environment import note_duration, write_or_check_lock
from bertc.train.init_from import source_of
from bertc.train.resumed_plan import plan_of
from bertc.train.session import Session, Watched, laid_out
from bertc.train.state import Progress, State, begin, restore


@contextmanager
def open_session(
    resolved: Resolved,
    folder: RunFolder,
    cache: Path,
    spec_text: str,
    display: Display,
    ranks: ProcessGroup,
) -> Iterator[Session]:
    """Start a run in its folder, or resume the one in it.

    Raises:
        ResumeRefusedError: if the data are not those that the run was started with.
        DataError: if there are checkpoints and every one of them is damaged.
    """
    lock, checkpoint, plan = _saved(resolved, folder, display, ranks)
    corpus = _prepared(resolved, cache, display, ranks)
    source = None
    if ranks.is_main:
        source = None if checkpoint else source_of(resolved, corpus.vocabulary)
        write_or_check_lock(resolved, folder, spec_text, lock, plan, corpus, source, display)
        note_duration(resolved, plan, corpus, display, ranks.world)
    device = torch.device(plan.device)
    stage = resolved.trained_at(ranks.share(checkpoint.step if checkpoint else 0))
    state = restore(checkpoint, resolved) if checkpoint else begin(resolved, stage, source)
    model, progress = state.model, Progress.of(ranks.share(asdict(state.progress)))
    if progress.step or isinstance(resolved.run.init, FromRun):
        ranks.share_tensors({**dict(model.named_parameters()), **state.moments})
    model, engine, moments = laid_out(model, state.moments, plan, ranks.world)
    remembered = _taken_up(resolved, state, progress.step, ranks, device)
    lines = Metrics(folder.metrics, progress.metrics_bytes) if ranks.is_main else NoMetrics()
    with lines:
        yield Session(
            resolved=resolved,
            folder=folder,
            corpus=corpus,
            vocab=vocab_tensors(corpus.vocabulary, preparing(device)),
            plan=plan,
            device=device,
            model=model,
            moments=moments,
            progress=progress,
            stage=stage,
            metrics=lines,
            display=display,
            ranks=ranks,
            engine=engine,
            remembered=remembered,
            best=state.best if ranks.is_main else {},
            saved=ranks.share(progress.step if checkpoint else -1),
        )


def _saved(
    resolved: Resolved, folder: RunFolder, display: Display, ranks: ProcessGroup
) -> tuple[Lock | None, checkpoints.Checkpoint | None, Plan]:
    """The lock and the plan, on all processes, and the newest checkpoint, in the first.

    Lock and checkpoint are None at the start of a run.
    """
    require_weights(resolved)
    lock, checkpoint = None, None
    if ranks.is_main:
        lock = folder.read_lock() if folder.holds_a_run else None
        checkpoint = _newest(folder, resolved, display)
        _refuse_damage(folder, checkpoint)
    content = ranks.share(lock and lock.content())
    lock = Lock.of(content, Path("lock.json")) if content else None
    with ranks.raise_on_all():
        return lock, checkpoint, plan_of(resolved, lock, display, ranks)


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


def _prepared(
    resolved: Resolved, cache: Path, display: Display, ranks: ProcessGroup
) -> PreparedCorpus:
    """Prepare the data in the first process; the others open them from the cache.

    Then one process of each machine prepares, in case machines have no disk in common.
    """
    corpus = None
    for turn in (0, ranks.world.per_host, 1):
        if corpus is None and ranks.rank % (turn or ranks.world.size) == 0:
            corpus = prepare(resolved, cache, Watched(display, ranks.stop))
        ranks.wait()
    assert corpus is not None, "each had its turn"
    return corpus


def _newest(
    folder: RunFolder, resolved: Resolved, display: Display
) -> checkpoints.Checkpoint | None:
    """The checkpoint to resume from; None at the start of a run."""
    checkpoints.remove_unfinished(folder.checkpoints)
    known = folder.identities() if folder.holds_a_run else ()
    checkpoint, damaged = checkpoints.newest(folder.checkpoints, identity(resolved), *known)
    for damage in damaged:
        display.note(f"passed over: {damage.reason}")
    if checkpoint:
        display.note(f"resuming at step {checkpoint.step:,} of {resolved.steps:,}")
    if checkpoint is None and damaged:
        raise DataError(
            f"every checkpoint in {folder.checkpoints} is damaged; the newest: {damaged[0].reason}",
            help=f"restore a copy, or remove {folder.checkpoints} to begin again at step 0",
        )
    if checkpoint is None and is_taken(folder.model):
        raise UsageError(
            f"{folder.path} holds an imported model, not a training run",
            help="choose another --out",
        )
    return checkpoint


def _refuse_damage(folder: RunFolder, checkpoint: checkpoints.Checkpoint | None) -> None:
    """Refuse damage that would otherwise show only at the end of the run.

    Raises:
        DataError: if the progress or the lines of metrics up to it are damaged.
    """
    if checkpoint:
        place = str(checkpoint.folder / checkpoints.PROGRESS)
        progress = Progress.of(checkpoint.progress, place)
        metrics.read(folder.metrics, progress.metrics_bytes)
