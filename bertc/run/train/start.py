"""The start of a run: all that is settled, and may fail, before its first step."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bertc.base.diagnostics import DataError, ResumeRefusedError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.durable import ANOTHER_OUT
from bertc.base.storage.paths import is_taken
from bertc.cost import Estimate
from bertc.cost.planning.disk import next_bytes
from bertc.cost.planning.plan import Machine, Plan
from bertc.data.corpus import PreparedCorpus, prepare
from bertc.data.layouts.parts import dev_parts
from bertc.data.sources.vectors import vectors_width
from bertc.hub.belonging import refuse_strangers
from bertc.hub.folders import PROGRESS
from bertc.ir.changing.growth import FromVectors
from bertc.ir.program.resolved import Resolved
from bertc.machine.display import Display, Watched
from bertc.machine.machine import cost_on, detect
from bertc.machine.out_of_memory import refuse_what_cannot_fit
from bertc.machine.process_group import ProcessGroup
from bertc.run.beginning.init_from import Source, require_readable, source_of
from bertc.run.beginning.teachers import digests, require_same_tokens, require_weights
from bertc.run.evaluation.word_networks import TrainedNetworks
from bertc.run.records import checkpoints, metrics
from bertc.run.records.checkpoints import Checkpoint
from bertc.run.records.folder import RunFolder, identity
from bertc.run.records.lock import Lock
from bertc.run.train.resumed_plan import plan_of
from bertc.run.train.state import Progress


class RunPlace(NamedTuple):
    """The folder of a run, the cache, its display and its processes."""

    folder: RunFolder
    cache: Path
    display: Display
    ranks: ProcessGroup


@dataclass(frozen=True)
class Outside:
    """Facts that the first process alone has, from the run folder and from those it begins from.

    ``lock`` and ``checkpoint`` are None at the start of a run, ``source`` is where there is a
    checkpoint, or no ``init``. ``teachers`` are their sha256, by folder.
    """

    lock: Lock | None
    checkpoint: Checkpoint | None
    source: Source | None
    teachers: dict[str, str]
    cost: Estimate


@dataclass(frozen=True)
class Start:
    """A program on this machine with its text; ``outside`` is None but in the first process.

    ``cache`` is the folder of what is prepared.
    """

    resolved: Resolved
    machine: Machine
    plan: Plan
    corpus: PreparedCorpus
    cache: Path
    outside: Outside | None


def machine_of(wanted: str, ranks: ProcessGroup) -> Machine:
    """This machine, with the least memory that any process of the run has."""
    machine = detect(wanted, ranks.world.per_host)
    return replace(machine, memory_bytes=ranks.least(machine.memory_bytes))


def settle(resolved: Resolved, machine: Machine, place: RunPlace, resume: bool) -> Start:
    """Plan, prepare the text, and look at what the run begins from; the run folder stays as it is.

    Without ``resume`` a run that is in the folder is not read.

    Raises:
        UsageError: if a teacher is a shape alone; if the folder holds an imported model.
        DataError: if there are checkpoints and every one of them is damaged; if a file of word
            vectors begins with none.
        MissingInputError: if there is no such file.
        CannotWriteError: if the disk has no room for the next checkpoint and the model.
    """
    require_weights(resolved)
    lock, checkpoint = _before(resolved, place) if resume else (None, None)
    plan = _planned(resolved, machine, place, lock, checkpoint)
    corpus = _prepared(resolved, place.folder.tokenizer if resume else None, place)
    outside = None
    if place.ranks.is_main:
        source = None if checkpoint else source_of(resolved, corpus.vocabulary)
        require_same_tokens(resolved, corpus.vocabulary)
        cost = cost_on(machine, resolved, corpus, place.ranks.world)
        outside = Outside(lock, checkpoint, source, digests(resolved), cost)
    return Start(resolved, machine, plan, corpus, place.cache, outside)


def _before(resolved: Resolved, place: RunPlace) -> tuple[Lock | None, Checkpoint | None]:
    """The lock of the run in the folder, for all processes; its checkpoint, for the first alone."""
    lock, checkpoint, folder = None, None, place.folder
    if place.ranks.is_main:
        lock = folder.read_lock() if folder.holds_a_run else None
        checkpoint = _newest(folder, resolved, place.display)
        _refuse_damage(folder, checkpoint)
        refuse_strangers(folder.path, ResumeRefusedError)
    content = place.ranks.share(lock and lock.content())
    return Lock.of(content, Path("lock.json")) if content else None, checkpoint


def _planned(
    resolved: Resolved,
    machine: Machine,
    place: RunPlace,
    lock: Lock | None,
    checkpoint: Checkpoint | None,
) -> Plan:
    """The plan; what would fail after the text is prepared, which may take long, fails here."""
    ranks, init = place.ranks, resolved.run.init
    with ranks.raise_on_all():
        if ranks.is_main:
            _require_room(place.folder, resolved, checkpoint)
        if ranks.is_main and checkpoint is None:
            for task in (task for stage in resolved.stages for task in stage.tasks):
                dev_parts(task)
            require_readable(init, resolved.stages[0].optimizer)
            if isinstance(init, FromVectors):
                vectors_width(init.path)
        plan = plan_of(resolved, machine, lock, place.display, ranks.world)
        refuse_what_cannot_fit(resolved, plan, machine, ranks.world)
    return plan


def _prepared(resolved: Resolved, learned: Path | None, place: RunPlace) -> PreparedCorpus:
    """Prepare the data in the first process; the others open them from the cache."""
    progress, networks = Watched(place.display, place.ranks.stop), TrainedNetworks
    return place.ranks.in_turn(
        lambda: prepare(resolved, place.cache, progress, networks(resolved.run.device), learned)
    )


def _newest(folder: RunFolder, resolved: Resolved, display: Display) -> Checkpoint | None:
    """The checkpoint to resume from; None at the start of a run."""
    known = folder.identities() if folder.holds_a_run else ()
    checkpoint, damaged = checkpoints.newest(folder.checkpoints, identity(resolved), *known)
    for damage in damaged:
        display.note(f"passed over: {damage.reason}")
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


def _require_room(folder: RunFolder, resolved: Resolved, checkpoint: Checkpoint | None) -> None:
    """Refuse a disk without room for the next checkpoint and the model, before any step is lost."""
    step = checkpoint.step if checkpoint else 0
    elsewhere = ANOTHER_OUT if checkpoint else "choose another --out"
    with durable.writing(folder.path, next_bytes(resolved, step), elsewhere):
        pass


def _refuse_damage(folder: RunFolder, checkpoint: Checkpoint | None) -> None:
    """Refuse damage that would otherwise show only at the end of the run.

    Raises:
        DataError: if the progress or the lines of metrics up to it are damaged.
    """
    if checkpoint:
        place = str(checkpoint.folder / PROGRESS)
        progress = Progress.of(checkpoint.progress, place)
        metrics.read(folder.metrics, progress.metrics_bytes)
