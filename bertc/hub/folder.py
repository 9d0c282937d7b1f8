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
SIGNS = ("config.json", "resolved.json", "onnx.json", "adapter_config.json")
"""Files of which every exported or imported folder has at least one."""
EXPORTED = SENTENCE_FILES | {
    "README.md", "config.json", "model.safetensors", "bertc_heads.safetensors",
    "resolved.json", "note.txt", "onnx.json", "model.onnx", "model.int8.onnx",
    "adapter_config.json", "adapter_model.safetensors",
}  # fmt: skip
"""Files of an earlier export that a new one may drop."""


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


def _refuse_to_lose(folder: Path, fresh: Path) -> None:
    if not is_taken(folder):
        return
    if not is_folder(folder):
        raise UsageError(f"{folder} is a file", help="name a new folder")
    new = {path.name for path in fresh.iterdir()} | EXPORTED
    strangers = sorted(path.name for path in folder.iterdir() if path.name not in new)
    if strangers:
        names = ", ".join(strangers[:3])
        raise UsageError(
            f"{folder} exists and holds {names}", help="move that away, or name a new folder"
        )
    # A tokenizer's folder has only names that an export has, and yet it is none.
    if any(folder.iterdir()) and not any(is_taken(folder / name) for name in SIGNS):
        raise UsageError(f"{folder} exists and holds no exported model", help="name a new folder")
