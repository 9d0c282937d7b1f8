"""A run in progress: opening or resuming it, entering stages, saving checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from bertc.data import PreparedCorpus, prepare
from bertc.diagnostics import DataError, UsageError
from bertc.distributed.engines import Engine, gathered, held, make_engine
from bertc.distributed.process_group import Ranks
from bertc.host.display import Display
from bertc.host.signals import Stop
from bertc.ir.network.growth import FromRun
from bertc.ir.program.resolved import Resolved, Stage
from bertc.nn import Model
from bertc.nn.exact import preparing
from bertc.objectives import Tables
from bertc.optim.lamb import Moments
from bertc.planning import Layout, Plan, World
from bertc.runs import checkpoints, metrics
from bertc.runs.folder import RunFolder, identity
from bertc.runs.lock import Lock
from bertc.runs.metrics import Metrics, Unwritten
from bertc.step.memory import Remembered, shapes, taken_up
from bertc.step.vocabulary import vocabulary_tables
from bertc.storage.paths import is_taken
from bertc.train.environment import note_beginning, tell_time, versions
from bertc.train.growth import described, grown
from bertc.train.init_from import source_of
from bertc.train.resumed_plan import plan_of
from bertc.train.state import Progress, State, begin, restore


@dataclass
class Session:
    """The state that the loop works on; ``stage`` is the one whose network ``model`` is.

    ``best`` are the weights of the best evaluation, in the first process's main memory.
    """

    resolved: Resolved
    folder: RunFolder
    corpus: PreparedCorpus
    tables: Tables
    plan: Plan
    device: torch.device
    model: Model
    moments: Moments
    progress: Progress
    stage: Stage
    metrics: Metrics | Unwritten
    display: Display
    ranks: Ranks
    engine: Engine
    remembered: Remembered
    best: dict[str, Tensor]
    saved: int

    @property
    def copies(self) -> int:
        """The number of processes with a copy of the same gradient."""
        return _layout(self.plan, self.ranks.world).copies

    def enter(self, stage: Stage) -> None:
        """Enter a stage; if its network differs, grow it from the current one.

        The last checkpoint stays of the old network; a resumed run grows it again, to the same
        weights.
        """
        if stage.grow is not None and stage is not self.stage:
            # Each process makes the whole of the new network from the whole of the old one.
            weights, moments = gathered(self.engine.parameters), gathered(self.moments)
            model, moments = grown(self.resolved, self.stage, stage, weights, moments)
            self.model, self.engine, self.moments = laid_out(
                model, moments, self.plan, self.ranks.world
            )
            self.display.note(described(self.stage, stage))
        self.stage = stage

    def weights(self) -> dict[str, Tensor]:
        """Gather all weights in the first process's main memory; every process takes part."""
        return gathered(self.engine.parameters, self.ranks.first)

    def keep_best(self) -> None:
        """Copy the current weights as the best ones."""
        self.best = {name: tensor.clone() for name, tensor in self.weights().items()}

    @torch.no_grad()
    def go_back_to_best(self) -> None:
        """Restore the best weights and mark the state as unsaved."""
        parameters = self.engine.parameters
        best = self.best or {name: torch.empty(p.shape) for name, p in parameters.items()}
        self.ranks.share_tensors(best)
        for name, parameter in parameters.items():
            held(parameter).copy_(held(self.engine.spread(best[name], name)))
        self.best, self.saved = {}, -1

    def address(self, stage: Stage, kind: str) -> dict[str, object]:
        """The fields common to every metrics line."""
        return {
            "kind": kind,
            "step": self.progress.step,
            "stage": stage.name,
            "tokens": self.progress.tokens,
            "seconds": round(self.progress.seconds, 3),
        }

    def save(self) -> None:
        """Write a checkpoint of the current step, unless there is one; all processes take part.

        Raises:
            CannotWriteError: if the disk has no room; the last good checkpoint stays.
        """
        if self.saved == self.progress.step:
            return
        assert self.stage is self.resolved.trained_at(self.progress.step), "its stage has begun"
        weights, moments = self.weights(), gathered(self.moments, self.ranks.first)
        stage, memory = self.resolved.stage_at(self.progress.step), dict[str, Tensor]()
        if stage.remembers(self.progress.step):
            memory = self.remembered.gathered(stage, self.ranks)
        if self.ranks.first:
            self._write(weights, moments, memory)
        # None goes on, or ends, before there is something to resume from.
        self.ranks.wait()
        self.saved = self.progress.step

    def _write(
        self, weights: dict[str, Tensor], moments: dict[str, Tensor], memory: dict[str, Tensor]
    ) -> None:
        self.progress.metrics_bytes = self.metrics.synced_bytes()
        facts = {
            "run": identity(self.resolved),
            "stage": self.stage.name,
            "data": self.corpus.fingerprint,
            "threads": torch.get_num_threads(),
            "versions": versions(),
        }
        checkpoints.save(
            self.folder.checkpoints,
            self.progress.step,
            weights,
            moments,
            asdict(self.progress),
            facts,
            self.resolved.run.keep,
            memory,
            self.best,
        )


class Watched:
    """A display for data preparation that raises if the run is asked to stop."""

    def __init__(self, display: Display, stop: Stop) -> None:
        self._display, self._stop = display, stop

    def begin(self, task: str, total: int, unit: str) -> None:
        """Start a task of the preparation."""
        self._stop.check_alone()
        self._display.begin(task, total, unit)

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units as done."""
        self._stop.check_alone()
        self._display.advance(amount)

    def end(self) -> None:
        """Finish the task."""
        self._display.end()

    def note(self, message: str) -> None:
        """Show a line of text."""
        self._display.note(message)


@contextmanager
def open_session(
    resolved: Resolved,
    folder: RunFolder,
    cache: Path,
    spec_text: str,
    display: Display,
    ranks: Ranks,
) -> Iterator[Session]:
    """Start a run in its folder, or resume the one in it.

    Raises:
        ResumeRefusedError: if the data are not those that the run was started with.
        DataError: if there are checkpoints and every one of them is damaged.
    """
    lock, found = None, None
    if ranks.first:
        lock = folder.read_lock() if folder.holds_a_run else None
        found = _newest(folder, resolved, display)
        _refuse_damage(folder, found)
    lock = _shared(lock, ranks)
    with ranks.alike():
        plan = plan_of(resolved, lock, display, ranks)
    corpus = _prepared(resolved, cache, display, ranks)
    source = None
    if ranks.first:
        source = None if found else source_of(resolved, corpus.vocabulary)
        note_beginning(resolved, folder, spec_text, lock, plan, corpus, source, display)
        for text in source.lines() if source else ():
            display.note(text)
        tell_time(resolved, plan, corpus, display, ranks.world)

    device = torch.device(plan.device)
    stage = resolved.trained_at(ranks.share(found.step if found else 0))
    state = restore(found, resolved) if found else begin(resolved, stage, source)
    model, progress = state.model, Progress.of(ranks.share(asdict(state.progress)))
    if progress.step or isinstance(resolved.run.init, FromRun):
        ranks.share_tensors({**dict(model.named_parameters()), **state.moments})
    model, engine, moments = laid_out(model, state.moments, plan, ranks.world)
    remembered = _taken_up(resolved, state, progress.step, ranks, device)
    written = Metrics(folder.metrics, progress.metrics_bytes) if ranks.first else Unwritten()
    with written as lines:
        yield Session(
            resolved=resolved,
            folder=folder,
            corpus=corpus,
            tables=vocabulary_tables(corpus.vocabulary, preparing(device)),
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
            best=state.best if ranks.first else {},
            saved=ranks.share(progress.step if found else -1),
        )


def laid_out(
    model: Model, moments: Moments, plan: Plan, world: World
) -> tuple[Model, Engine, Moments]:
    """Move a model and its moments to the devices of the processes, by the plan's strategy."""
    model.compute_dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
    engine = make_engine(model, _layout(plan, world), torch.device(plan.device))
    return model, engine, {n: engine.spread(m, n[2:]) for n, m in moments.items()}


def _taken_up(
    resolved: Resolved, state: State, step: int, ranks: Ranks, device: torch.device
) -> Remembered:
    """The memory of this process's rows, from the first process's checkpoint or of zeros."""
    stage = resolved.stage_at(step)
    if not stage.remembers(step):
        return Remembered()
    memory = state.memory or {n: torch.zeros(shape) for n, shape in shapes(stage).items()}
    ranks.share_tensors(memory)
    return taken_up(memory, stage, ranks.rows(stage.batch), state.model.compute_dtype, device)


def _prepared(resolved: Resolved, cache: Path, display: Display, ranks: Ranks) -> PreparedCorpus:
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


def _layout(plan: Plan, world: World) -> Layout:
    return Layout(world, plan.strategy)


def _newest(
    folder: RunFolder, resolved: Resolved, display: Display
) -> checkpoints.Checkpoint | None:
    """The checkpoint to resume from; None at the start of a run."""
    checkpoints.remove_unfinished(folder.checkpoints)
    known = folder.identities() if folder.holds_a_run else ()
    found, damaged = checkpoints.newest(folder.checkpoints, identity(resolved), *known)
    for damage in damaged:
        display.note(f"passed over: {damage.reason}")
    if found:
        display.note(f"resuming at step {found.step:,} of {resolved.steps:,}")
    if found is None and damaged:
        raise DataError(
            f"no checkpoint in {folder.checkpoints} is sound; the newest: {damaged[0].reason}",
            help=f"restore a copy, or remove {folder.checkpoints} to begin again at step 0",
        )
    if found is None and is_taken(folder.model):
        raise UsageError(
            f"{folder.path} holds an imported model, not a training run",
            help="choose another --out",
        )
    return found


def _shared(lock: Lock | None, ranks: Ranks) -> Lock | None:
    content = ranks.share(lock and lock.content())
    return Lock.of(content, Path("lock.json")) if content else None


def _refuse_damage(folder: RunFolder, found: checkpoints.Checkpoint | None) -> None:
    """Refuse damage that would otherwise show only at the end of the run.

    Raises:
        DataError: if the progress or the lines of metrics up to it are damaged.
    """
    if found:
        progress = Progress.of(found.progress, str(found.folder / checkpoints.PROGRESS))
        metrics.read(folder.metrics, progress.metrics_bytes)
