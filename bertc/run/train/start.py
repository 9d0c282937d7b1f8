"""The start of a run, all that may fail before its first step."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from bertc.base.diagnostics import DataError, ResumeRefusedError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.durable import ANOTHER_OUT
from bertc.base.storage.paths import is_taken
from bertc.cost import Estimate, World, estimate
from bertc.cost.planning.plan import Machine, Plan, next_bytes
from bertc.hub.belonging import refuse_strangers
from bertc.ir.changing.growth import vector_file
from bertc.ir.program import Resolved
from bertc.machine.display import Display, Watched
from bertc.machine.machine import detect, device_here, make_plan
from bertc.machine.memory import refuse_what_cannot_fit
from bertc.machine.process_group import ProcessGroup
from bertc.model.native.kernels import missing
from bertc.run.beginning.init_from import Source, require_readable, source_of
from bertc.run.beginning.teachers import digests, require_same_tokens, require_weights
from bertc.run.evaluation.word_networks import TrainedNetworks
from bertc.run.records import checkpoints, metrics
from bertc.run.records.checkpoints import Checkpoint
from bertc.run.records.folder import RunFolder, identity
from bertc.run.records.lock import Lock
from bertc.run.train.state import Progress
from bertc.tasks.corpus import PreparedCorpus, prepare
from bertc.tasks.layouts.parts import dev_parts
from bertc.text.vocab.token_rows import vectors_width


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
    """A program on this machine with its text; ``outside`` is None but in the first process."""

    resolved: Resolved
    machine: Machine
    plan: Plan
    corpus: PreparedCorpus
    outside: Outside | None


def machine_of(device: str, ranks: ProcessGroup) -> Machine:
    """This machine, with the least memory that any process of the run has."""
    machine = detect(device, ranks.world.per_host)
    return replace(machine, memory_bytes=ranks.least(machine.memory_bytes))


def settle(resolved: Resolved, machine: Machine, place: RunPlace, resume: bool) -> Start:
    """Plan, prepare the text, and look at what the run begins from; its folder stays as it is.

    What would fail after the text is prepared, which may take long, fails before it.
    """
    ranks, folder, init = place.ranks, place.folder, resolved.run.init
    require_weights(resolved)
    lock, checkpoint = _before(resolved, place) if resume else (None, None)
    with ranks.raise_on_all():
        if ranks.is_main:
            needed = next_bytes(resolved, checkpoint.step if checkpoint else 0)
            elsewhere = ANOTHER_OUT if checkpoint else "choose another --out"
            with durable.writing(folder.path, needed, elsewhere):
                pass  # a disk without room for the next checkpoint and the model
        if ranks.is_main and checkpoint is None:
            for task in (task for stage in resolved.stages for task in stage.tasks):
                dev_parts(task)
            require_readable(init, resolved.stages[0].optimizer)
            if name := vector_file(init):
                vectors_width(name)
        plan = plan_of(resolved, machine, lock, place.display, ranks.world)
        refuse_what_cannot_fit(resolved, plan, machine, ranks.world)
    progress, networks = Watched(place.display, ranks.stop), TrainedNetworks(resolved.run.device)
    learned = folder.tokenizer if resume else None
    corpus = ranks.in_turn(lambda: prepare(resolved, place.cache, progress, networks, learned))
    outside = None
    if ranks.is_main:
        source = None if checkpoint else source_of(resolved, corpus)
        require_same_tokens(resolved, corpus.vocabulary)
        masks = any(term.objective.masks for term in resolved.terms())
        corpus.vocabulary.require_mask(resolved.encoder.table.dropped, masks=masks)
        device, lengths = device_here(machine, ranks.world.per_host), corpus.row_lengths
        cost = estimate(resolved, device, devices=ranks.world.size, lengths=lengths)
        outside = Outside(lock, checkpoint, source, digests(resolved), cost)
    return Start(resolved, machine, plan, corpus, outside)


def _before(resolved: Resolved, place: RunPlace) -> tuple[Lock | None, Checkpoint | None]:
    """The lock of the run in the folder, for all processes; its checkpoint, for the first alone."""
    lock, checkpoint, folder = None, None, place.folder
    if place.ranks.is_main:
        known: tuple[str, ...] = ()
        if folder.holds_a_run:
            lock, known = folder.read_lock(), folder.identities()
        checkpoint, damaged = checkpoints.newest(folder.checkpoints, identity(resolved), *known)
        for damage in damaged:
            place.display.note(f"passed over: {damage}")
        if checkpoint:  # damage of these would otherwise show only at the end of the run
            metrics.read(folder.metrics, Progress.of(checkpoint.progress).metrics_bytes)
        elif damaged:
            raise DataError(
                f"every checkpoint in {folder.checkpoints} is damaged; the newest: {damaged[0]}",
                help=f"restore a copy, or remove {folder.checkpoints} to begin again at step 0",
            )
        elif is_taken(folder.model):
            message = f"{folder.path} holds an imported model, not a training run"
            raise UsageError(message, "choose another --out")
        refuse_strangers(folder.path, ResumeRefusedError)
    return place.ranks.share(lock), checkpoint


def plan_of(
    resolved: Resolved, machine: Machine, lock: Lock | None, display: Display, world: World
) -> Plan:
    """The plan for this machine; on resume that of the lock, for the same sums, if possible."""
    plan = make_plan(resolved, world, machine)
    if lock:
        began = lock.plan
        strategy = resolved.run.strategy
        other_strategy = plan.processes > 1 and strategy not in ("auto", began.strategy)
        if _where(began) == _where(plan) and not other_strategy:
            settings = (stage.microbatch for stage in resolved.stages)
            sizes = zip(settings, plan.microbatches, began.microbatches, strict=True)
            chosen = tuple(new if a else old for a, new, old in sizes)
            recompute = began.recompute if resolved.run.recompute == "auto" else plan.recompute
            plan = replace(began, microbatches=chosen, recompute=recompute)
        else:
            if began.device == plan.device:
                plan = replace(plan, precision=began.precision)
            display.note(
                f"warning: started on {_where(began)}, now on {_where(plan)}: "
                "results differ in the last digits"
            )
        _keep_sums(lock, plan, display)
    stated = [f"on {plan.device}", *plan.reasons]
    if resolved.origins.get("data", "").startswith("default"):
        unnamed = (s for s in resolved.stages if any(d.corpus.kind == "docstrings" for d in s.data))
        if steps := sum(stage.steps for stage in unnamed if not stage.tasks):
            stated.append(f"no data is named: {steps:,} steps on docstrings of packages")
    display.note("; ".join(stated))
    return plan


def _where(plan: Plan) -> str:
    return plan.device if plan.processes == 1 else f"{plan.device} in {plan.processes} processes"


def _keep_sums(lock: Lock, plan: Plan, display: Display) -> None:
    """Set the run's first number of threads, since another sums otherwise; note other kernels."""
    threads, began = torch.get_num_threads(), lock.threads
    if lock.plan.processes == plan.processes and began != threads:
        display.note(
            f"warning: the run began with {began} threads, here it would have {threads}; "
            f"continuing with {began}, for identical sums"
        )
        torch.set_num_threads(began)
    lacked = lock.machine.get("without_kernels", "")
    lacking = missing(plan.precision) if plan.device == "cpu" else lacked
    if bool(lacked) != bool(lacking):
        display.note(
            f"warning: started with{'out' * bool(lacked)} kernels for this processor, now with"
            f"{'out' * bool(lacking)} them ({lacked or lacking}): dropout differs from here on"
        )
