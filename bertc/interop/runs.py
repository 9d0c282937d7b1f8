"""``bertc export`` and ``bertc import``: run folder to Hugging Face folder and back."""

from dataclasses import dataclass, replace
from pathlib import Path

from bertc.data import vocabulary_of
from bertc.interop.belonging import write_digests
from bertc.interop.config import read_config
from bertc.interop.exporting import Exported, export_model
from bertc.interop.folder import replacing
from bertc.interop.folders import RESOLVED
from bertc.interop.hf_config import kept_settings
from bertc.interop.importing import Imported, import_model
from bertc.interop.loading import read_model
from bertc.interop.sentences import LONGEST_TEXT, add_pooling, refuse_other_poolings
from bertc.interop.task_classes import learned_pooling
from bertc.storage.paths import is_file
from bertc.syntax import show


@dataclass(frozen=True)
class ImportedRun:
    """A run folder made from a Hugging Face folder."""

    folder: Path
    imported: Imported

    def summary(self) -> str:
        """Lines: the new folder, its network, the notes."""
        count = sum(tensor.numel() for tensor in self.imported.tensors.values())
        config = self.imported.config
        first = (
            f"{self.folder}: {config.model_type}, {config.num_hidden_layers} layers of "
            f"{config.hidden_size}, {count:,} parameters"
        )
        return "\n".join([first, *(f"note: {note}" for note in self.imported.notes)])


def export_run(run: Path, folder: Path, pooling: str = "") -> Exported:
    """Export a run's model to the Hugging Face layout that fits it.

    With a ``pooling``, mean, cls or max, sentence-transformers loads the folder too; one that has
    learned to embed has its own.

    Raises:
        DataError: naming the setting that no layout supports, or a damaged file.
        MissingInputError: if the run has no model.
        UsageError, CannotWriteError: as ``export_model``, and of another pooling.
    """
    if pooling:
        refuse_other_poolings(pooling)
    resolved, tensors = read_model(run)
    pooling = pooling or learned_pooling(resolved) or ""
    words = vocabulary_of(run, resolved.encoder.vocab_size)
    config = run / "model" / "config.json"
    there = is_file(config)
    exported = export_model(
        resolved, tensors, words, folder,
        strict=True,
        prefer=read_config(config).model_type if there else None,
        kept=kept_settings(config) if there else {},
    )  # fmt: skip
    if pooling:
        body = resolved.encoder
        longest = body.room or LONGEST_TEXT
        add_pooling(folder, pooling, body.hidden, longest, pooler=not exported.lacks_pooler)
        note = f"sentence-transformers loads it too, with pooling {pooling}"
        exported = replace(exported, notes=(*exported.notes, note))
    return exported


def import_run(folder: Path, run: Path) -> ImportedRun:
    """Make a run folder from a Hugging Face folder: spec, program, tokenizer and model.

    Raises:
        MissingInputError, DataError, UnsafeError: as ``import_model``.
        UsageError: if ``run`` holds something else already.
        CannotWriteError: if the disk is full or the folder cannot be written.
    """
    imported = import_model(folder, run.absolute() / "tokenizer")
    tokenizer = vocabulary_of(folder, imported.resolved.encoder.vocab_size)
    with replacing(run) as fresh:
        (fresh / "spec.bertc").write_text(show(imported.program), encoding="utf-8")
        program = imported.resolved.model_dump_json(indent=1)
        (fresh / RESOLVED).write_text(program + "\n", encoding="utf-8")
        tokenizer.save(fresh / "tokenizer")
        layout = imported.config.model_type
        export_model(
            imported.resolved, imported.tensors, tokenizer, fresh / "model",
            prefer=layout, kept=kept_settings(folder / "config.json"),
        )  # fmt: skip
        write_digests(fresh, model=0)
    return ImportedRun(run, imported)
