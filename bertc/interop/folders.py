"""Kinds of folders, told apart by the names in them; loads nothing heavy."""

import re
from pathlib import Path

from pydantic import ValidationError

from bertc.diagnostics import DataError, MissingInputError
from bertc.ir.program.resolved import Resolved
from bertc.storage.json_file import read_json
from bertc.storage.paths import is_file, is_folder

RESOLVED = "resolved.json"
MAX_JSON_BYTES = 16 * 2**20
REPLACED = ".replaced"
"""The end of a checkpoint's name while another of its step takes its place."""
_STEP = re.compile(rf"step-(\d{{8,18}})({re.escape(REPLACED)})?")


def read_resolved(path: Path) -> Resolved:
    """The program in a ``resolved.json``.

    Raises:
        MissingInputError: if it is not there, or no plain file.
        DataError: if it is none.
    """
    try:
        return Resolved.model_validate(read_json(path, MAX_JSON_BYTES))
    except (ValidationError, RecursionError):
        raise DataError(
            f"{path} is not a resolved program of this version of bertc",
            help="restore a copy of it, or take the folder from its source again",
        ) from None


def checkpoint_name(step: int) -> str:
    """The name of the folder of a checkpoint after so many steps."""
    return f"step-{step:08d}"


def checkpoint_folders(parent: Path) -> list[tuple[int, Path]]:
    """All that is named as checkpoints are, with their steps, the newest first."""
    if not is_folder(parent):
        return []
    found = ((_STEP.fullmatch(path.name), path) for path in parent.iterdir())
    named = [(int(match[1]), not match[2], path) for match, path in found if match]
    return [(step, path) for step, _, path in sorted(named, reverse=True)]


def refuse_several(folder: Path) -> None:
    """A grid's folder holds its points.

    Raises:
        MissingInputError: it is one; names some of them.
    """
    runs = sorted(path.parent for path in folder.glob(f"*/{RESOLVED}"))
    if runs and not is_file(folder / "config.json"):
        raise MissingInputError(
            f"{folder} is a folder of {len(runs)} runs",
            help=f"name one: {', '.join(map(str, runs[:3]))}",
        )
