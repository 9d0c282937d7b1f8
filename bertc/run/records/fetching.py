"""A run copied from the address of its mirror, to be resumed on this machine."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bertc.base.diagnostics import BertcError, DataError, MissingInputError
from bertc.base.storage import durable
from bertc.base.storage.claims import lock
from bertc.base.storage.paths import is_taken, real_path
from bertc.base.storage.place import FolderAt
from bertc.hub.folders import RESOLVED, checkpoint_name, read_resolved
from bertc.ir.program.resolved import Resolved
from bertc.machine.display import Display
from bertc.run.records.checkpoints import MANIFEST, manifest_content
from bertc.run.records.folder import RunFolder
from bertc.run.records.lock import LARGEST_BYTES
from bertc.run.records.mirror import belongs, refuse_another


def fetch(address: str, folder: Path | None, display: Display) -> Path | None:
    """Copy a run from an address, unless the one in ``folder`` is as new; None if there is none.

    Without ``folder`` it is runs/NAME, by the address. An older one there gets another name.
    Several processes may call this at once: one copies, and the others wait for it.
    """
    place = FolderAt(address)
    there = place.sizes(below=True)
    if RESOLVED not in there:
        return None
    program, saved = _program(place), _whole(there)
    out = folder or Path("runs") / Path(address).name
    newest = max(saved, default="step-0")
    with _alone(real_path(out)) as (target, aside):
        run = RunFolder(target)
        if run.holds_a_run:
            refuse_another(place, run)
            here = checkpoint_name(run.saved_step)
            if run.in_use or here >= newest:
                display.note(f"{out} has {here}, {address} {newest}: going on from {out}")
                return out
        elif is_taken(target):
            run.admit(program, resume=True)
        needed = [size for name, size in there.items() if belongs(name) or newest in name]
        with durable.writing(target, sum(needed), "choose another --out"):
            _copy(place, there, aside, display)
            if run.holds_a_run:
                before = target.with_name(f"{target.name}.{here}")
                display.note(f"{out} had {here} only, and is {before} from now on")
                durable.remove(before)
                durable.rename(target, before)
            durable.remove(target)
            durable.rename(aside, target)
            display.note(f"{address} is {out} here")
    return out


def _whole(there: Mapping[str, int]) -> list[str]:
    """The names of the checkpoints at an address that have a manifest, newest first."""
    paths = [name.split("/") for name in there if name.startswith("checkpoints/step-")]
    return sorted((path[1] for path in paths if path[2:] == [MANIFEST]), reverse=True)


def _program(place: FolderAt) -> Resolved:
    with TemporaryDirectory() as folder:
        place.get(RESOLVED, Path(folder) / RESOLVED)
        try:
            return read_resolved(Path(folder) / RESOLVED)
        except BertcError as error:
            error.message = error.message.replace(folder, place.address)
            raise


@contextmanager
def _alone(target: Path) -> Iterator[tuple[Path, Path]]:
    """Let one process at a time fill a folder; yield it, and the name to fill it under."""
    durable.make_folder(target.parent)
    aside, locked = (target.with_name(f".{target.name}.{end}") for end in ("tmp", "lock"))
    descriptor = os.open(locked, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        lock(descriptor)
        durable.remove(aside)
        yield target, aside
        locked.unlink(missing_ok=True)
    finally:
        durable.remove(aside)
        os.close(descriptor)


def _copy(place: FolderAt, there: Mapping[str, int], aside: Path, display: Display) -> None:
    """Copy the newest checkpoint that is as its manifest states, and the small files."""
    (aside / "checkpoints").mkdir(parents=True)
    damaged = list[str]()
    for step in _whole(there):
        size = sum(size for name, size in there.items() if f"/{step}/" in name)
        display.note(f"copying {step} from {place.address}: {size:,} bytes")
        try:
            _copy_checkpoint(place, step, aside / "checkpoints" / step)
            break
        except (DataError, MissingInputError) as error:
            damaged.append(error.message)
            display.note(f"passed over: {error.message}")
            durable.remove(aside / "checkpoints" / step)
    else:
        if damaged:
            raise DataError(
                f"every checkpoint at {place.address} is damaged; the newest: {damaged[0]}",
                help=f"restore a copy, or remove {place.address}/checkpoints to begin again",
            )
    for name in filter(belongs, there):
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        place.get(name, aside / name)
    durable.sync_all(aside)


def _copy_checkpoint(place: FolderAt, step: str, folder: Path) -> None:
    at = f"checkpoints/{step}"
    folder.mkdir()
    try:
        raw = place.read(f"{at}/{MANIFEST}", LARGEST_BYTES) or b""
        files: dict[str, Any] = manifest_content(raw)["files"]
        digests = {Path(name).name: str(stated["sha256"]) for name, stated in files.items()}
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{place.address}/{at}/{MANIFEST} is damaged") from None
    for name, digest in digests.items():
        try:
            place.get(f"{at}/{name}", folder / name, digest)
            if place.folder and durable.digest(folder / name) != digest:
                raise DataError(f"{place.address}/{at}/{name} is not what was written")
        except FileNotFoundError:
            raise MissingInputError(f"{place.address}/{at}/{name} is missing") from None
    durable.write(folder / MANIFEST, raw)
