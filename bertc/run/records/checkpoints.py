"""Checkpoints: a folder a step, complete and verified or not there at all.

    checkpoints/step-00001234/
        weights.safetensors      every weight of the weight table
        optimizer.safetensors    m.<weight> and v.<weight>, as the rule keeps them
        memory.safetensors       what the rows of the next batch go on from, where there is one
        METHOD.safetensors       what a method of the stage has, such as the best weights
        progress.json            where the run stands
        manifest.json            size and sha256 of the others, and what they belong to

A checkpoint is written under another name, synced, and renamed. Older ones go only after
the new one has been read back; one of the same step is called ``step-00001234.replaced`` until
then, and found under that name. Nothing is pickled.
"""

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, is_taken
from bertc.base.storage.plain_file import parse_json, read_bytes, read_json, reason
from bertc.hub.folders import PROGRESS, REPLACED, checkpoint_folders, checkpoint_name

WEIGHTS, OPTIMIZER = "weights.safetensors", "optimizer.safetensors"
MANIFEST = "manifest.json"
JSON_LIMIT_BYTES = 2**20
TEMPORARY = ".tmp-"


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint; ``facts`` describe the run in the manifest."""

    folder: Path
    step: int
    progress: Mapping[str, Any]
    facts: Mapping[str, Any]


def save(
    parent: Path,
    step: int,
    content: Mapping[str, Mapping[str, Tensor]],
    progress: Mapping[str, Any],
    facts: Mapping[str, Any],
    keep: int | Literal["all"],
    stay: Collection[int] = (),
    begun: bool = False,
) -> Path:
    """Write one checkpoint, verify it, then remove all but the newest ``keep``.

    Those of the steps ``stay`` stay too. ``content`` are tensors by file; ``begun``: other files
    are there already (see sharded.py).
    """
    final, temporary = parent / checkpoint_name(step), temporary_folder(parent, step)
    content = {name: tensors for name, tensors in content.items() if tensors}
    needed = 65_536 + sum(t.nbytes for tensors in content.values() for t in tensors.values())
    with durable.writing(final, needed):
        if not begun:
            begin(temporary)
        try:
            for name, tensors in content.items():
                host = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
                save_file(host, temporary / name)
                durable.sync(temporary / name)
            durable.write(temporary / PROGRESS, _render(progress))
            files = {
                path.name: {"bytes": path.stat().st_size, "sha256": durable.digest(path)}
                for path in temporary.iterdir()
            }
            durable.write(temporary / MANIFEST, _manifest(step, files, facts))
            durable.sync(temporary)
            if is_taken(final):  # damaged, or of the step before its evaluation
                aside = final.with_name(f"{final.name}{REPLACED}")
                durable.remove(aside)
                durable.rename(final, aside)
            durable.rename(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    remove_older(parent, verify(final), keep, stay)
    return final


def temporary_folder(parent: Path, step: int) -> Path:
    """The folder in which a checkpoint is written."""
    return parent / f"{TEMPORARY}{step:08d}"


def begin(temporary: Path) -> None:
    """Make the folder in which a checkpoint is written."""
    durable.make_folder(temporary.parent)
    durable.remove(temporary)
    temporary.mkdir()


def _render(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _manifest(step: int, files: Mapping[str, Any], facts: Mapping[str, Any]) -> bytes:
    """The bytes of the manifest, with a checksum of its content."""
    content = {"schema": 1, "step": step, "files": files, "facts": facts}
    return _render({"content": content, "sha256": hashlib.sha256(_render(content)).hexdigest()})


def remove_older(
    parent: Path, newest: Checkpoint, keep: int | Literal["all"], stay: Collection[int]
) -> None:
    """Remove what ``newest`` replaced, and all but the newest ``keep``, damaged or not.

    Each is renamed first: a kill in between leaves nothing that looks like a checkpoint. What NFS
    does not let go, since another machine reads it, stays until the run is resumed.
    """
    earlier = [pair for pair in checkpoint_folders(parent) if pair[1] != newest.folder]
    replaced = [folder for step, folder in earlier if step == newest.step]
    older = [folder for step, folder in earlier if step not in (newest.step, *stay)]
    surplus = [] if keep == "all" else older[keep - 1 :]
    for folder in (*replaced, *surplus):
        doomed = folder.with_name(f"{TEMPORARY}old-{folder.name}")
        with suppress(OSError):
            durable.remove(doomed)
            folder.rename(doomed)
            durable.remove(doomed)


def how_to_resume(parent: Path) -> str:
    """The help of a run that ended without saving."""
    for step, _ in checkpoint_folders(parent):
        return f"--resume goes on from step {step:,}, the last checkpoint"
    return "nothing was saved yet; --resume begins again"


def remove_unfinished(parent: Path) -> None:
    """Remove the leftovers of a killed run, half written or half removed."""
    for path in parent.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            durable.remove(path)


def newest(
    parent: Path, *runs: str, parts: Collection[str] = ()
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that verifies, or some files of which do; what newer ones lack.

    It is of a run with one of these identities, if there are any.
    """
    damaged = list[str]()
    for _, folder in checkpoint_folders(parent):
        try:
            checkpoint = verify(folder, parts)
        except (DataError, MissingInputError) as error:
            damaged.append(error.message)
            continue
        if not runs or checkpoint.facts.get("run") in runs:
            return checkpoint, damaged
        damaged.append(f"{folder} belongs to another run")
    return None, damaged


def verify(folder: Path, parts: Collection[str] = ()) -> Checkpoint:
    """Read a checkpoint back; compare every byte with the manifest, or of some files alone."""
    try:
        raw = read_bytes(folder / MANIFEST, JSON_LIMIT_BYTES)
        content = parse_json(raw, JSON_LIMIT_BYTES)["content"]
        if raw != _manifest(content["step"], content["files"], content["facts"]):
            raise ValueError("checksum differs")
        fault = next(_faults(folder, content, parts), "")
    except OSError as error:
        fault = reason(error)
    except MissingInputError as error:
        fault = error.message
    except (ValueError, KeyError, TypeError, DataError):
        fault = f"{MANIFEST} is damaged"
    if fault:
        raise DataError(f"damaged checkpoint {folder}: {fault}")
    progress = read_json(folder / PROGRESS, JSON_LIMIT_BYTES)
    return Checkpoint(folder, content["step"], progress, content["facts"])


def _faults(folder: Path, content: Any, parts: Collection[str]) -> Iterator[str]:
    """Yield what of a checkpoint is not as its manifest states it."""
    if folder.name.removesuffix(REPLACED) != checkpoint_name(content["step"]):
        yield f"{MANIFEST} is of step {content['step']}"
    names, files = {path.name for path in folder.iterdir()} - {MANIFEST}, content["files"]
    if parts:
        names &= {*parts}
        files = {name: stated for name, stated in files.items() if name in parts}
    for name in sorted({*files} ^ names):
        yield f"{name} " + ("is missing" if name in files else "does not belong there")
    for name in (MANIFEST, *sorted(files)):
        if (folder / name).is_symlink() or not is_file(folder / name):
            yield f"{name} is not a plain file"
    for name, stated in sorted(files.items()):
        path = folder / name
        if path.stat().st_size != stated["bytes"]:
            yield f"{name} has {path.stat().st_size} bytes instead of {stated['bytes']}"
        if durable.digest(path) != stated["sha256"]:
            yield f"{name} is not what was written"


def load(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Load the tensors of a file of a checkpoint, by name, and check names, shapes and types."""
    if not shapes:  # of a rule without moments there is no file
        return {}
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as safetensors") from error
    kinds = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    expected = {name: (shape, torch.float32) for name, shape in shapes.items()}
    for name in sorted({name for name, _ in kinds.items() ^ expected.items()}):
        raise DataError(f"{path}: tensor {name} is {kinds.get(name)}, not {expected.get(name)}")
    return {name: tensors[name] for name in shapes}
