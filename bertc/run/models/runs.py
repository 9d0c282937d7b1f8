"""``bertc export`` and ``bertc import``: run folder to Hugging Face folder and back."""

import os
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, UsageError
from bertc.base.storage.paths import is_file, is_taken
from bertc.hub.belonging import write_digests
from bertc.hub.config import keep_settings, longest_row, read_config
from bertc.hub.folders import RESOLVED, SENTENCES, replacing
from bertc.hub.gliner import in_layout
from bertc.hub.keys import parts_of
from bertc.hub.leaving.adapter_folder import export_adapter
from bertc.hub.leaving.exporting import Exported, export_model
from bertc.hub.leaving.target import exported_task
from bertc.hub.published import hub_name, model_folder
from bertc.hub.sentences import MODES, Sentences, vectors_of, write_sentences
from bertc.ir.changing.growth import FromRun
from bertc.ir.program import Resolved, model_weights
from bertc.lang import show
from bertc.run.models.importing import Imported, import_model
from bertc.run.models.loading import newest_step, read_checkpoint, read_model
from bertc.run.records.calibration import divide_by_temperatures
from bertc.text.tokenizers.reading import network_folder
from bertc.text.vocab.vocabulary import vocabulary_of


def model_after(run: Path, step: int) -> tuple[Resolved, dict[str, Tensor]]:
    """The program and the weights of a run after ``step`` steps, 0: the newest."""
    if step in (0, newest_step(run)):
        return read_model(run)
    resolved, tensors, _ = read_checkpoint(run, step, "evaluated")
    return resolved, tensors


def present_layout(run: Path) -> str | None:
    """The layout of a run's ``model/``, or of the folder that it was imported from."""
    config = run / "model" / "config.json"
    return read_config(config).model_type if is_file(config) else None


def export_run(run: Path, folder: Path, pooling: str = "", step: int = 0) -> Exported:
    """Export a run's model after ``step`` steps, 0: the newest, to the layout that fits it.

    With a ``pooling``, mean, cls, max or last, sentence-transformers loads the folder too; one that
    has learned to embed, or began from a folder of sentence-transformers, has its own.
    """
    if pooling and pooling not in MODES:
        message = f"--pooling {pooling}: sentence-transformers has no such pooling of one layer"
        raise UsageError(message, f"one of {', '.join(MODES)}")
    resolved, tensors = model_after(run, step)
    tensors, fitted = divide_by_temperatures(run, resolved, tensors)
    sentences = vectors_of(run, resolved)
    if pooling and exported_task(resolved, parts_of(tensors)):
        message = f"--pooling {pooling}: the folder has the class of a task, which makes no vectors"
        help = f"leave it out; bertc embed {run} FILE --pooling {pooling} makes vectors"
        raise UsageError(message, help)
    if pooling:
        known = sentences if sentences and not sentences.obstacle else Sentences()
        sentences = known.change(pooling=pooling)
    words = vocabulary_of(run, resolved.encoder.vocab_size)
    config = run / "model" / "config.json"
    exported = export_model(
        resolved, tensors, words, folder,
        strict=True,
        prefer=present_layout(run),
        copied=keep_settings(config) if is_file(config) else {},
        sentences=sentences,
        longest=0 if is_file(config) else longest_row(resolved),
    )  # fmt: skip
    return replace(exported, notes=(*exported.notes, *fitted))


def export_adapter_of(run: Path, folder: Path) -> Exported:
    """Export the newest adapter of a run alone, for the folder that the run began with."""
    step = newest_step(run)
    resolved, tensors = read_checkpoint(run, step, "adapted")[:2] if step else read_model(run)
    init, names = resolved.run.init, {w.name for w in model_weights(resolved) if w.frozen}
    if not names:
        message = f"--adapter: {run} has no checkpoint with an adapter"
        raise UsageError(message, "leave it out; a spec with a lora adapter trains one")
    merged_too = "leave out --adapter: the folder then has the whole network, merged"
    if not isinstance(init, FromRun):
        message = f"--adapter: {run} began with no folder as a whole, which peft would change"
        raise UsageError(message, merged_too)
    if not init.same_tokens:
        raise DataError(f"--adapter: {run} has another vocabulary than {init.path}", merged_too)
    base = Path(init.path) / "model" if is_taken(Path(init.path) / RESOLVED) else Path(init.path)
    base_weights = read_model(Path(init.path))[1]
    if not all(
        name in base_weights and torch.equal(base_weights[name], tensors[name]) for name in names
    ):
        raise DataError(f"{init.path} holds other weights than {run} began with", help=merged_too)
    words = vocabulary_of(run, resolved.encoder.vocab_size)
    called = hub_name(init.path) or str(base)
    return export_adapter(resolved, tensors, called, words, folder, present_layout(run))


def import_run(folder: Path, run: Path) -> Imported:
    """Make a run folder from a Hugging Face folder or the name of a model on the hub."""
    with in_layout(Path(model_folder(str(folder)))) as there:
        return _import(there, run)


def _import(folder: Path, run: Path) -> Imported:
    imported = import_model(folder, Path(os.path.relpath(run)) / "tokenizer")
    tokenizer = vocabulary_of(folder, imported.resolved.encoder.vocab_size)
    with replacing(run) as fresh:
        (fresh / "spec.bertc").write_text(show(imported.program), encoding="utf-8")
        program = imported.resolved.model_dump_json(indent=1)
        (fresh / RESOLVED).write_text(program + "\n", encoding="utf-8")
        tokenizer.save(fresh / "tokenizer")
        layout = imported.config.model_type
        sentences = vectors_of(folder, imported.resolved)
        if sentences:
            write_sentences(sentences, fresh / SENTENCES, imported.resolved.encoder)
        export_model(
            imported.resolved, imported.tensors, tokenizer, fresh / "model",
            prefer=layout, copied=keep_settings(network_folder(folder) / "config.json"),
            sentences=sentences,
        )  # fmt: skip
        write_digests(fresh, model=0)
    return imported
