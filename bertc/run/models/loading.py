"""Loading weights and program from a run or model folder of either layout, onto a device."""

import hashlib
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from torch import Tensor

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.paths import StrPath, is_file, is_folder, is_taken
from bertc.hub import folders
from bertc.hub.belonging import refuse_strangers
from bertc.hub.keys import part_of, parts_of
from bertc.hub.leaving.adapter_folder import merge
from bertc.hub.leaving.pruned import remove_units
from bertc.hub.networks import GENERATOR, add_tables, join_networks
from bertc.hub.published import or_hub
from bertc.hub.tensors import check_entry, check_names, read_header, read_tensors
from bertc.hub.weights import SAFE
from bertc.ir.program import Resolved, model_weights, stand_in
from bertc.ir.program.settings import RunPrecision
from bertc.ir.program.stage import EVALUATED_FILES
from bertc.machine.machine import dtype_of, make_plan
from bertc.model import Linear, Model, build
from bertc.run.models.importing import import_model
from bertc.run.records.checkpoints import WEIGHTS, Checkpoint, newest, verify

_warn_once = cache(logging.getLogger(__name__).warning)
EVALUATED = (WEIGHTS, *EVALUATED_FILES)
"""Files of a checkpoint that evaluations read."""
Weights = Literal["trained", "evaluated", "adapted"]
"""Weights as steps change them, or as evaluations read them, with adapters merged or apart."""


def load(folder: Path) -> Model:
    """Load a module in evaluation mode; its ``untrained`` names heads with initial weights."""
    resolved, tensors = read_model(folder)
    model = build(resolved)
    model.load_state_dict({**model.state_dict(), **tensors})
    model.untrained = parts_of(model.state_dict()) - parts_of(tensors)
    return model.eval()


def read_checkpoint(
    run: Path, step: int, weights: Weights
) -> tuple[Resolved, dict[str, Tensor], Path]:
    """Program, weights and folder of a run's checkpoint after ``step`` steps, 0: the newest."""
    refuse_strangers(run)
    number, checkpoint = folders.checkpoint_of(run, step)
    try:
        verify(checkpoint, EVALUATED)
    except (DataError, MissingInputError):
        message = f"the weights of {checkpoint} are damaged"
        raise DataError(message, help="name another step") from None
    program, tensors = _of_checkpoint(run, number, checkpoint, weights)
    if weights == "evaluated":
        program, tensors = merge(program, tensors)
    return program, tensors, checkpoint


def _of_checkpoint(
    run: Path, step: int, checkpoint: Path, weights: Weights = "adapted"
) -> tuple[Resolved, dict[str, Tensor]]:
    resolved = folders.read_resolved(run / folders.RESOLVED)
    resolved = resolved.as_in(trained := resolved.stage_after(step))
    stands_in = stand_in(trained, step) if weights != "trained" else None
    return resolved, _read_own(checkpoint / (stands_in.file if stands_in else WEIGHTS), resolved)


def read_model(folder: Path) -> tuple[Resolved, dict[str, Tensor]]:
    """Read program and tensors of a run (newest valid checkpoint) or of a model folder."""
    if not is_folder(folder):
        help = or_hub("name a run or a model folder", str(folder))
        raise MissingInputError(f"there is no folder {folder}", help=help)
    if not is_taken(folder / folders.RESOLVED):
        folders.refuse_several(folder)
        imported = import_model(folder)
        return imported.resolved, imported.tensors
    refuse_strangers(folder)
    if checkpoint := _newest_checkpoint(folder):
        of_checkpoint = _of_checkpoint(folder, checkpoint.step, checkpoint.folder)
        resolved, tensors = merge(*of_checkpoint)
        removed = is_taken(folder / folders.LEFT)
        return remove_units(resolved, tensors) if removed else (resolved, tensors)
    resolved = folders.read_network(folder)
    model = folder / "model" if is_folder(folder / "model") else folder
    if is_file(model / "config.json"):
        imported = import_model(model)
        tensors = add_tables(imported.resolved, imported.tensors)
        if is_file(model / GENERATOR / folders.RESOLVED):
            tensors = join_networks(resolved, tensors, read_model(model / GENERATOR)[1])
        tensors = add_tables(resolved, tensors, -1)
        shapes = {weight.name: weight.shape for weight in model_weights(resolved)}
        if any(shapes.get(name) != tuple(tensor.shape) for name, tensor in tensors.items()):
            message = f"{model} does not hold the weights of {folder / folders.RESOLVED}"
            help = "one of the two was changed; copy the folder from its source again"
            raise DataError(message, help)
        return resolved, tensors
    if model == folder and not is_file(folder / SAFE):
        message = f"{folder} has no checkpoint and no model yet"
        raise MissingInputError(message, "train it first, or --resume it")
    return resolved, _read_own(model / SAFE, resolved)


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """sha256 of tensors with their names and shapes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tuple(tensors[name].shape)}\n".encode())
        digest.update(tensors[name].contiguous().numpy().data)
    return digest.hexdigest()


def weights_digest(folder: StrPath) -> str:
    """sha256 of the weights of a run (newest valid checkpoint) or of a model folder."""
    return digest_of(read_model(Path(folder))[1])


def _read_own(path: Path, resolved: Resolved) -> dict[str, Tensor]:
    """Tensors stored under their bertc names; whole heads may be absent."""
    header = read_header(path)
    parts = parts_of(name for name in header if name.count(".") > 1) | {"body"}
    table = {w.name: w.shape for w in model_weights(resolved) if part_of(w.name) in parts}
    check_names(path, set(header), set(table))
    for name, entry in header.items():
        check_entry(path, name, entry, table[name])
    return read_tensors(path, {name: name for name in table})


def _newest_checkpoint(run: Path) -> Checkpoint | None:
    """The newest checkpoint whose weights match the checksums in its manifest."""
    parent = run / "checkpoints"
    checkpoint, damaged = newest(parent, parts=EVALUATED)
    if checkpoint and checkpoint.step != (last := folders.checkpoint_folders(parent)[0][0]):
        text = "warning: the weights after step %s in %s are damaged: those after step %s"
        _warn_once(text, last, parent, checkpoint.step)
    elif damaged and not checkpoint:
        message = f"no checkpoint in {parent} is undamaged"
        raise DataError(message, "start the run again, or restore a copy")
    return checkpoint


def newest_step(run: Path) -> int:
    """The step of the newest undamaged checkpoint; 0 without checkpoints."""
    checkpoint = _newest_checkpoint(run)
    return checkpoint.step if checkpoint else 0


def place_on_device(model: Model, device: str, precision: RunPrecision | None = None) -> None:
    """Move a model to a device, to compute in a precision; None: as its run did, or fast there."""
    update = {"device": device, "precision": precision or model.resolved.run.precision}
    run = model.resolved.run.model_copy(update=update)
    plan = make_plan(model.resolved.model_copy(update={"run": run}))
    model.to(plan.device).compute_dtype = dtype_of(plan)
    for network in model.networks():
        for part in network.modules():
            if isinstance(part, Linear):  # cast here, not in every batch
                part.to(model.compute_dtype)
