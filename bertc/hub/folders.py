"""Kinds of model and run folders, by the names of their files, and their replacement; no torch."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from bertc.base.diagnostics import DataError, MissingInputError, UsageError, listed, several
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, is_folder, is_taken
from bertc.base.storage.plain_file import read_json
from bertc.hub.token_vectors import DENSE
from bertc.ir.program import Resolved

RESOLVED = "resolved.json"
LEFT = "pruned.json"
"""The program of what is left, where a run that has ended says another."""
PROGRESS = "progress.json"
SENTENCES = "sentences"
"""The files of sentence-transformers that a run began with."""
MODULES, ENCODER = "modules.json", "sentence_bert_config.json"
SETTINGS = "config_sentence_transformers.json"
SENTENCE_FILES = frozenset({MODULES, ENCODER, SETTINGS, "1_Pooling", "2_Normalize", DENSE})
"""Files of sentence-transformers."""
ELSEWHERE = "name another folder"
SIGNS = ("config.json", "resolved.json", "onnx.json", "adapter_config.json", MODULES)
"""Files of which every exported or imported folder has at least one."""
EXPORTED = SENTENCE_FILES | {
    "README.md", "config.json", "gliner_config.json", "model.safetensors",
    "bertc_heads.safetensors",
    "resolved.json", "note.txt", "onnx.json", "model.onnx", "model.int8.onnx",
    "adapter_config.json", "adapter_model.safetensors", "proof.json", "proof.safetensors",
}  # fmt: skip
"""Files of an earlier export that a new one may drop."""
MAX_JSON_BYTES = 16 * 2**20
REPLACED = ".replaced"
"""The end of a checkpoint's name while another of its step takes its place."""
_STEP = re.compile(rf"step-(\d{{8,18}})({re.escape(REPLACED)})?")


def read_resolved(path: Path) -> Resolved:
    """Read the program in a ``resolved.json``."""
    try:
        return Resolved.model_validate(read_json(path, MAX_JSON_BYTES))
    except (ValidationError, RecursionError) as error:
        location = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
        place = f": {'.'.join(map(str, location))} is missing or unknown" if location else ""
        message = f"{path} is not a resolved program of this version of bertc{place}"
        remedy = "restore a copy of it, or copy the folder from its source again"
        raise DataError(message, help=remedy) from None


def read_network(folder: Path) -> Resolved:
    """Read the program of the network in a run folder or in bertc's own layout, adapters merged."""
    return read_resolved(folder / (LEFT if is_taken(folder / LEFT) else RESOLVED)).merged


def checkpoint_name(step: int) -> str:
    """The folder name of the checkpoint after ``step`` steps."""
    return f"step-{step:08d}"


def checkpoint_folders(parent: Path) -> list[tuple[int, Path]]:
    """Checkpoint folders with their steps, newest first."""
    if not is_folder(parent):
        return []
    matches = ((_STEP.fullmatch(path.name), path) for path in parent.iterdir())
    named = [(int(match[1]), not match[2], path) for match, path in matches if match]
    return [(step, path) for step, _, path in sorted(named, reverse=True)]


def checkpoint_at(run: Path, step: int) -> tuple[int, Path] | None:
    """The checkpoint after ``step`` steps of a run, 0: the newest; None if there is none."""
    checkpoints = checkpoint_folders(run / "checkpoints")
    return next((checkpoint for checkpoint in checkpoints if step in (0, checkpoint[0])), None)


def checkpoint_of(run: Path, step: int) -> tuple[int, Path]:
    """The checkpoint after ``step`` steps of a run, 0: the newest; if none, those are named."""
    if checkpoint := checkpoint_at(run, step):
        return checkpoint
    steps = [f"{saved:,}" for saved, _ in checkpoint_folders(run / "checkpoints")]
    raise MissingInputError(
        f"{run} has no checkpoint of step {step:,}" if step else f"{run} has none",
        help=f"name one of steps {', '.join(steps[::-1])}" if steps else "name a run folder",
    )


def refuse_several(folder: Path) -> None:
    """Refuse the folder of a grid, which holds several runs, naming some."""
    runs = sorted(path.parent for path in folder.glob(f"*/{RESOLVED}"))
    if runs and not is_file(folder / "config.json"):
        message = f"{folder} holds {several(len(runs), 'run')}"
        raise MissingInputError(message, help=f"name one: {listed(map(str, runs), limit=400)}")


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield a new folder that replaces an earlier export at ``folder`` if no error is raised."""
    folder = folder.absolute()
    fresh = folder.parent / f".{folder.name}.{os.getpid()}.new"
    with durable.writing(folder, elsewhere=ELSEWHERE):
        durable.make_folder(folder.parent)
        try:
            durable.remove(fresh)
            fresh.mkdir()
            _refuse_other(folder)
            yield fresh
            _refuse_to_lose(folder, fresh)
            durable.sync_all(fresh)
            old = fresh.with_suffix(".old")
            shutil.rmtree(old, ignore_errors=True)
            if is_taken(folder):
                folder.rename(old)
            durable.rename(fresh, folder)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _refuse_other(folder: Path) -> None:
    if not is_taken(folder):
        return
    if not is_folder(folder):
        raise UsageError(f"{folder} is a file", help="name a new folder")
    # A tokenizer's folder has only names that an export has, and yet it is none.
    if any(folder.iterdir()) and not any(is_taken(folder / name) for name in SIGNS):
        raise UsageError(f"{folder} exists and holds no exported model", help="name a new folder")


def _refuse_to_lose(folder: Path, fresh: Path) -> None:
    new = {path.name for path in fresh.iterdir()} | EXPORTED
    there = folder.iterdir() if is_taken(folder) else ()
    strangers = sorted(path.name for path in there if path.name not in new)
    if strangers:
        message = f"{folder} exists and holds {', '.join(strangers[:3])}"
        raise UsageError(message, help="move that away, or name a new folder")
