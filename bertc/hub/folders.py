"""Kinds of model and run folders, by the names of their files; no torch."""

import re
from pathlib import Path

from pydantic import ValidationError

from bertc.base.diagnostics import DataError, MissingInputError, listed, several
from bertc.base.storage.paths import is_file, is_folder, is_taken
from bertc.base.storage.plain_file import read_json
from bertc.ir.program.resolved import Resolved

RESOLVED = "resolved.json"
PRUNED = "pruned.json"
"""The program of what is left, where a run that has ended says another."""
PROGRESS = "progress.json"
SENTENCES = "sentences"
"""The files of sentence-transformers that a run began with."""
MAX_JSON_BYTES = 16 * 2**20
REPLACED = ".replaced"
"""The end of a checkpoint's name while another of its step takes its place."""
_STEP = re.compile(rf"step-(\d{{8,18}})({re.escape(REPLACED)})?")


def read_resolved(path: Path) -> Resolved:
    """Read the program in a ``resolved.json``."""
    try:
        return Resolved.model_validate(read_json(path, MAX_JSON_BYTES))
    except (ValidationError, RecursionError) as error:
        at = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
        place = f": {'.'.join(map(str, at))} is missing or unknown" if at else ""
        raise DataError(
            f"{path} is not a resolved program of this version of bertc{place}",
            help="restore a copy of it, or copy the folder from its source again",
        ) from None


def read_network(folder: Path) -> Resolved:
    """Read the program of the network in a run folder or in bertc's own layout, adapters merged."""
    return read_resolved(folder / (PRUNED if is_taken(folder / PRUNED) else RESOLVED)).merged


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
        raise MissingInputError(
            f"{folder} holds {several(len(runs), 'run')}",
            help=f"name one: {listed(map(str, runs), limit=400)}",
        )
