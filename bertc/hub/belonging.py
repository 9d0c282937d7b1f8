"""Digests of a run's parts, and the refusal of parts of another run. Loads no torch."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import BertcError, DataError, MissingInputError
from bertc.base.storage import durable
from bertc.base.storage.json_file import read_json
from bertc.base.storage.paths import is_file
from bertc.hub.folders import SENTENCES, checkpoint_folders

DIGESTS = "digests.json"
"""sha256 of the files of ``tokenizer/``, ``sentences/`` and ``model/``, as a run wrote them."""
ORIGIN = {
    "resolved": "the program",
    "data": "the text",
    "init": "the weights of init",
    "teachers": "the weights of teachers",
}
"""Fields of ``lock.json`` that checkpoints repeat, and what they are digests of."""
EDITED = ("config.json", "README.md")
"""Files of ``model/`` that people complete by hand."""
_LIMIT_BYTES = 16 * 2**20


def write_digests(run: Path, model: bool = False) -> None:
    """Write the digests of ``tokenizer/``, ``sentences/`` and, where ``model``, ``model/``."""
    parts = ["tokenizer", SENTENCES, *(["model"] if model else [])]
    files = {
        path.relative_to(run).as_posix(): durable.digest(path)
        for part in parts
        for path in sorted((run / part).rglob("*"))
        if is_file(path) and path.name not in EDITED
    }
    content = json.dumps({"schema": 1, "files": files}, indent=1)
    durable.replace(run / DIGESTS, f"{content}\n".encode())


def refuse_strangers(run: Path, refusal: type[BertcError] = DataError, files: bool = True) -> None:
    """Refuse a run folder with parts of another run; without ``files`` in a glance.

    A part without digests is of this run.
    """
    if is_file(run / "lock.json"):
        lock = read_json(run / "lock.json", _LIMIT_BYTES)
        for _, folder in checkpoint_folders(run / "checkpoints"):
            origin = _origin(folder)
            differing = [
                what
                for name, what in ORIGIN.items()
                if name in origin and (origin[name] or None) != (lock.get(name) or None)
            ]
            if differing:
                raise refusal(
                    f"{folder} and lock.json are of different runs: {', '.join(differing)} differ",
                    f"remove {folder} if it is of another run, or restore lock.json from a copy",
                )
    if not files or not is_file(run / DIGESTS):
        return
    stated = _mapping(read_json(run / DIGESTS, _LIMIT_BYTES).get("files"))
    for name, digest in stated.items():
        path = run / name
        if is_file(path) and _digest(path, path.stat().st_size, path.stat().st_mtime_ns) != digest:
            raise refusal(
                f"{path} is not what this run wrote",
                f"restore a copy of it, or remove {run / DIGESTS} to use it as it is",
            )


@cache
def _digest(path: Path, *_: int) -> str:
    """sha256 of a file, once for each age of it."""
    return durable.digest(path)


def _origin(checkpoint: Path) -> Mapping[str, Any]:
    """Digests of what a checkpoint was made from; none of a damaged one, which others report."""
    try:
        content = _mapping(read_json(checkpoint / "manifest.json", _LIMIT_BYTES).get("content"))
        return _mapping(_mapping(content.get("facts")).get("origin"))
    except (DataError, MissingInputError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
