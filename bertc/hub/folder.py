"""Atomic replacement of an output folder."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertc.base.diagnostics import UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_folder, is_taken
from bertc.hub.sentences import SENTENCE_FILES

ELSEWHERE = "name another folder"
SIGNS = ("config.json", "resolved.json", "onnx.json")
"""Files of which every exported or imported folder has at least one."""
EXPORTED = SENTENCE_FILES | frozenset(
    {
        "README.md",
        "config.json",
        "model.safetensors",
        "bertc_heads.safetensors",
        "resolved.json",
        "note.txt",
        "onnx.json",
        "model.onnx",
        "model.int8.onnx",
    }  # fmt: skip
)
"""Files of an earlier export that a new one may drop."""


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``folder`` when the block ends without error.

    An earlier export at ``folder`` is replaced; anything else there is left alone.

    Raises:
        UsageError: if ``folder`` holds files that the new one does not have.
        CannotWriteError: if the disk is full or the path cannot be written.
    """
    folder = folder.absolute()
    fresh = folder.parent / f".{folder.name}.{os.getpid()}.new"
    with durable.writing(folder, elsewhere=ELSEWHERE):
        durable.make_folder(folder.parent)
        try:
            durable.remove(fresh)
            fresh.mkdir()
            yield fresh
            _refuse_to_lose(folder, fresh)
            durable.sync_all(fresh)
            _take_place(folder, fresh)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _refuse_to_lose(folder: Path, fresh: Path) -> None:
    if not is_taken(folder):
        return
    if not is_folder(folder):
        raise UsageError(f"{folder} is a file", help="name a new folder")
    new = {path.name for path in fresh.iterdir()} | EXPORTED
    strangers = sorted(path.name for path in folder.iterdir() if path.name not in new)
    if strangers:
        raise UsageError(
            f"{folder} exists and holds {', '.join(strangers[:3])}",
            help="name a new folder",
        )
    # A tokenizer's folder has only names that an export has, and yet it is none.
    if any(folder.iterdir()) and not any(is_taken(folder / name) for name in SIGNS):
        raise UsageError(
            f"{folder} exists and holds no exported model",
            help="name a new folder",
        )


def _take_place(folder: Path, fresh: Path) -> None:
    if is_taken(folder):
        old = fresh.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        durable.rename(fresh, folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        durable.rename(fresh, folder)
