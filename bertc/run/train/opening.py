"""Both ends of a session: state on devices and the files of its folder; its model and report."""

import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor

from bertc.base.diagnostics import BertcError, StoppedError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_taken
from bertc.base.storage.plain_file import read_bytes
from bertc.cost import Layout, duration_text
from bertc.hub.belonging import DIGESTS, ORIGIN, write_digests
from bertc.hub.config import longest_row
from bertc.hub.leaving.adapter_folder import merge
from bertc.hub.leaving.exporting import export_model
from bertc.hub.leaving.pruned import remove_units
from bertc.hub.sentences import vectors_of, vectors_of_init, write_sentences
from bertc.ir.changing.growth import Drawn
from bertc.learn.step.engines import gathered
from bertc.learn.step.memory import take_up_memory
from bertc.machine.display import SHORTEST_FORECAST_SECONDS
from bertc.machine.process_group import ProcessGroup
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.records import changes, checkpoints, metrics
from bertc.run.records.folder import RunFolder
from bertc.run.records.lock import Lock, versions
from bertc.run.train.report import Report
from bertc.run.train.session import Session, place_on_devices
from bertc.run.train.start import Outside, RunPlace, Start
from bertc.run.train.state import Progress, begin, restore
from bertc.tasks.corpus import contents


@contextmanager
def open_session(
    start: Start, place: RunPlace, spec_text: str, tracking: metrics.Tracking | None
) -> Iterator[Session]:
    """Begin a run in its folder, or resume the one in it."""
    resolved, plan, outside, ranks = start.resolved, start.plan, start.outside, place.ranks
    checkpoint = outside.checkpoint if outside else None
    origin = _begun(start, outside, place, spec_text) if outside else {}
    restored = restore(checkpoint, resolved) if checkpoint else None
    progress = Progress.of(ranks.share(asdict(restored.progress if restored else Progress())))
    stage = resolved.stage_after(progress.step)
    state = restored or begin(resolved, stage, outside.source if outside else None)
    if progress.step or not isinstance(resolved.run.init, Drawn):  # else all draw the same
        ranks.share_tensors({**dict(state.model.named_parameters()), **state.moments})
    model, engine, moments = place_on_devices(state.model, state.moments, plan, ranks.world)
    device = torch.device(plan.device)
    now = progress.step, ranks, model.compute_dtype, device
    remembered = take_up_memory(state.held, resolved.stage_at(progress.step), *now)
    of_methods = dict[str, dict[str, torch.Tensor]]()  # of the first process's checkpoint
    for method, store in ((method, method.holds) for method in stage.methods if method.holds):
        tensors = state.held.get(store.file, {})
        if method.has_begun(progress.step):
            named = engine.parameters.items()
            tensors = tensors or {name: torch.empty(weight.shape) for name, weight in named}
            ranks.share_tensors(tensors)
            tensors = {name: engine.shard(tensor, name) for name, tensor in tensors.items()}
        of_methods[store.file] = tensors
    with _metrics(start, place, progress, tracking) as lines:
        session = Session(
            start=start, folder=place.folder, display=place.display, ranks=ranks, device=device,
            metrics=lines, origin=origin, stage=stage, model=model, engine=engine, moments=moments,
            progress=progress, remembered=remembered,
            held=of_methods, saved=ranks.share(progress.step if checkpoint else -1),
            writers=ranks.aside() if Layout(ranks.world, plan.strategy).sharded else None,
        )  # fmt: skip
        try:
            yield session
        finally:
            if session.saving:
                session.saving.wait()


@contextmanager
def saying_nothing_began(folder: RunFolder, ranks: ProcessGroup) -> Iterator[None]:
    """Say of a stop before a run has a folder that there is nothing to resume."""
    try:
        yield
    except StoppedError as error:
        if folder.holds_a_run or not ranks.stop.requested:
            raise
        message = f"stopped before the first step: there is no run in {folder.path} yet"
        help = "the same command again; a vocabulary and tokens that were ready are in the cache"
        raise type(error)(message, help) from None


def _begun(start: Start, outside: Outside, place: RunPlace, spec_text: str) -> dict[str, Any]:
    """Ready the folder of the run; the digests of its lock, which checkpoints repeat."""
    resolved, source, time = start.resolved, outside.source, outside.cost.time
    folder, note, most = place.folder, place.display.note, resolved.run.most_seconds
    checkpoints.remove_unfinished(folder.checkpoints)
    if not folder.holds_a_run:
        # Only now: a first try whose text cannot be read must not claim the folder.
        folder.start(resolved, spec_text)
    if lock := outside.lock:
        pairs = {"the text: fingerprint": (lock.data, start.corpus.fingerprint)}
        if source:  # read again, since there is no checkpoint yet
            pairs["the weights of init: sha256"] = (lock.init, source.sha256)
        for teacher, digest in outside.teachers.items():
            digest_before = lock.teachers.get(teacher, "none")
            pairs[f"the weights of teacher {teacher}: sha256"] = (digest_before, digest)
        changes.refuse([f"{name} {a} -> {b}" for name, (a, b) in pairs.items() if a != b])
        if (before := folder.read_resolved()).steps < resolved.steps:
            note(f"made for {before.steps:,} steps, the run goes on to {resolved.steps:,}")
            folder.go_on(before, resolved)
        folder.move(resolved)
    else:
        lock = _lock(start, outside)  # may refuse, so it goes before all that is written
        with durable.writing(folder.tokenizer):
            start.corpus.vocabulary.save(folder.tokenizer)
            durable.sync_all(folder.tokenizer)
        if sentences := vectors_of_init(resolved.run.init):
            write_sentences(sentences, folder.sentences, resolved.encoder)
        write_digests(folder.path)
        lock.write(folder.lock)
    for text in source.lines() if source else ():
        note(text)
    if outside.checkpoint:
        # A kill may have come before older ones went.
        stay = [saved.step for saved in resolved.run.save_at]
        checkpoints.remove_older(folder.checkpoints, outside.checkpoint, resolved.run.keep, stay)
        goal = duration_text(most) if most else f"{resolved.steps:,}"
        note(f"resuming at step {outside.checkpoint.step:,} of {goal}")
    elif outside.lock:
        note("no checkpoint was saved yet: the run begins again")
    if not most and time.seconds_total > SHORTEST_FORECAST_SECONDS:
        note(f"{resolved.steps:,} steps are estimated to take {time.total_text} on {time.device}")
    return {name: lock.content()[name] for name in ORIGIN}


def _lock(start: Start, outside: Outside) -> Lock:
    """The lock of this run, with the digests of its checkpoint where the lock was removed."""
    lock = Lock(
        resolved=start.resolved.fingerprint(), data=start.corpus.fingerprint,
        contents=contents(start.corpus), init=outside.source.sha256 if outside.source else "",
        teachers=outside.teachers, threads=torch.get_num_threads(), plan=start.plan,
        machine=asdict(start.machine), versions=versions(),
    )  # fmt: skip
    before = outside.checkpoint.facts.get("origin", {}) if outside.checkpoint else {}
    # What a run that goes on reads anew; the rest its checkpoint has taken in.
    now = {name: lock.content()[name] for name in ("data", "teachers")}
    changed = {name: new for name, new in now.items() if before.get(name, new) != new}
    changes.refuse([f"{ORIGIN[name]}: {before[name]} -> {new}" for name, new in changed.items()])
    return lock.model_copy(update={name: before[name] for name in ORIGIN if name in before})


@contextmanager
def _metrics(
    start: Start, place: RunPlace, progress: Progress, tracking: metrics.Tracking | None
) -> Iterator[metrics.Metrics | None]:
    """Open metrics and trackers in the first process, noting how the run is taken up and fails."""
    folder, ranks, note = place.folder, place.ranks, place.display.note
    if not ranks.is_main:
        yield None
        return
    durable.remove(folder.failure)
    host, now = platform.node(), time.time()
    sealed = durable.digest(folder.forecast) if is_taken(folder.forecast) else ""
    world = ranks.world.size
    attempt = metrics.Attempt(progress.step, now, host, start.machine.name, world, sealed)
    if is_taken(folder.spent):
        metrics.whole_lines(folder.spent)  # Refused now, not after steps, if it is no plain file.
    metrics.append_line(folder.attempts, asdict(attempt))
    with (
        tracking(folder.path, start.resolved, progress.step, note)
        if tracking
        else nullcontext(lambda line: None) as send,
        metrics.Metrics(folder.metrics, progress.metrics_bytes, send) as lines,
        folder.noting_failure(),
    ):
        yield lines


def finish(session: Session) -> Report:
    """Write ``model/`` in the first process, and return the report."""
    folder, progress = session.folder, session.progress
    tensors = gathered(session.evaluated, session.ranks.is_main)
    notes = _write(session, tensors) if session.ranks.is_main else ()
    lines = metrics.read(folder.metrics) if session.ranks.is_main else []
    last = next((line for line in reversed(lines) if line["kind"] == "eval"), None)
    known = {field.name for field in fields(Evaluation)}
    left_out, ends = metrics.ends_until(progress.step, lines)
    return Report(
        folder=folder.path, step=progress.step - left_out,
        steps=session.resolved.steps_by(progress.step, progress.seconds), tokens=progress.tokens,
        seconds=progress.seconds,
        evaluation=last and Evaluation(**{n: value for n, value in last.items() if n in known}),
        notes=(*notes, *ends),
    )  # fmt: skip


def _write(session: Session, tensors: dict[str, Tensor]) -> tuple[str, ...]:
    folder = session.folder
    resolved, tensors = merge(session.resolved, tensors)
    for leftover in folder.path.glob(f".{folder.model.name}.*"):  # of an export that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    removal: tuple[str, ...] = ()
    if any(method.removes for stage in resolved.stages for method in stage.methods):
        count = sum(tensor.numel() for tensor in tensors.values())
        resolved, tensors = remove_units(resolved, tensors)
        folder.write_left(resolved)
        remaining = sum(tensor.numel() for tensor in tensors.values())
        removal = (f"{remaining:,} of {count:,} parameters are left ({remaining / count:.1%})",)
    digests = folder.path / DIGESTS
    before = read_bytes(digests, metrics.LARGEST_BYTES) if is_taken(digests) else None
    write_digests(folder.path)  # of the model none: a kill may leave the old one or the new
    sentences = vectors_of(folder.path, resolved)
    try:
        vocabulary = session.start.corpus.vocabulary
        exported = export_model(
            resolved, tensors, vocabulary, folder.model, sentences=sentences,
            longest=longest_row(resolved),
        )  # fmt: skip
    except BertcError:  # which leaves the old model
        durable.remove(digests)
        if before is not None:
            durable.replace(digests, before)
        raise
    write_digests(folder.path, model=session.progress.step)
    return (*removal, *exported.notes)
