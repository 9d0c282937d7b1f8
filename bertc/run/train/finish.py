"""The end of a run: its model exported, its report."""

import shutil
from dataclasses import fields

from torch import Tensor

from bertc.base.diagnostics import BertcError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_taken
from bertc.base.storage.plain_file import read_bytes
from bertc.hub.belonging import DIGESTS, write_digests
from bertc.hub.leaving.adapter_folder import merged
from bertc.hub.leaving.exporting import export_model
from bertc.hub.leaving.pruned import remove_units
from bertc.hub.sentences import vectors_of
from bertc.learn.step.engines import gathered
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.records import metrics
from bertc.run.records.lines import LARGEST_BYTES
from bertc.run.records.metrics import describe
from bertc.run.train.report import Report
from bertc.run.train.session import Session


def finish(session: Session) -> Report:
    """Write ``model/`` in the first process, and return the report."""
    folder, progress = session.folder, session.progress
    tensors = gathered(session.evaluated, session.ranks.is_main)
    lines: list[metrics.Line] = []
    notes: tuple[str, ...] = ()
    if session.ranks.is_main:
        notes = _write(session, tensors)
        lines = metrics.read(folder.metrics)
    ends = [line for line in lines if "best" in line]
    last = next((line for line in reversed(lines) if line["kind"] == "eval"), None)
    known = {field.name for field in fields(Evaluation)}
    notes = (*notes, *(f"stage {line['stage']} {describe(line['best'])}" for line in ends))
    left_out = sum(line["best"]["end"] - line["best"]["ended"] for line in ends)
    return Report(
        folder=folder.path, step=progress.step - left_out,
        steps=session.resolved.steps_by(progress.step, progress.seconds), tokens=progress.tokens,
        seconds=progress.seconds,
        evaluation=last and Evaluation(**{n: value for n, value in last.items() if n in known}),
        notes=notes,
    )  # fmt: skip


def _write(session: Session, tensors: dict[str, Tensor]) -> tuple[str, ...]:
    folder = session.folder
    resolved, tensors = merged(session.resolved, tensors)
    for leftover in folder.path.glob(f".{folder.model.name}.*"):  # of an export that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    removal: tuple[str, ...] = ()
    if any(method.removes for stage in resolved.stages for method in stage.methods):
        count = sum(tensor.numel() for tensor in tensors.values())
        resolved, tensors = remove_units(resolved, tensors)
        folder.write_pruned(resolved)
        remaining = sum(tensor.numel() for tensor in tensors.values())
        removal = (f"{remaining:,} of {count:,} parameters are left ({remaining / count:.1%})",)
    digests = folder.path / DIGESTS
    before = read_bytes(digests, LARGEST_BYTES) if is_taken(digests) else None
    write_digests(folder.path)  # of the model none: a kill may leave the old one or the new
    sentences = vectors_of(folder.path, resolved)
    try:
        exported = export_model(
            resolved, tensors, session.start.corpus.vocabulary, folder.model, sentences=sentences
        )
    except BertcError:  # which leaves the old model
        durable.remove(digests)
        if before is not None:
            durable.replace(digests, before)
        raise
    write_digests(folder.path, model=session.progress.step)
    return (*removal, *exported.notes)
