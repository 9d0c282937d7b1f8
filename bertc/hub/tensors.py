"""Safetensors files, with names and shapes checked before any tensor is read."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage import durable
from bertc.base.storage.plain_file import name_few
from bertc.hub.folders import ELSEWHERE

FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Entry:
    """Dtype and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, Entry]:
    """Name, dtype and shape of every tensor in a file."""
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {n: Entry(s.get_dtype(), tuple(s.get_shape())) for n, s in slices.items()}
    except OSError as error:
        raise MissingInputError(f"{path} cannot be read: {error.strerror}") from None
    except SafetensorError:
        message = f"{path} is not a valid safetensors file"
        raise DataError(message, help="copy or save it again") from None


def check_entry(path: Path, key: str, entry: Entry, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of the wrong shape, or of a dtype other than fp32, fp16 and bf16."""
    if entry.shape != shape:
        stored, expected = ("x".join(map(str, size)) or "()" for size in (entry.shape, shape))
        message = f"{path}: {key} has shape {stored}, config.json asks for {expected}"
        raise DataError(message, help="the weights file does not match its config.json")
    if entry.dtype not in FLOATS:
        message = f"{path}: {key} has dtype {entry.dtype}"
        raise DataError(message, help=f"supported dtypes: {', '.join(FLOATS)}")


def check_names(
    path: Path, present: set[str], expected: set[str], spelling: Mapping[str, str] | None = None
) -> None:
    """Refuse a file with missing or unexpected tensors; ``spelling`` has the file's own names."""
    if missing := sorted(expected - present):
        message = f"{path} lacks {name_few(missing)}"
        raise DataError(message, help="the file does not match the config.json beside it")
    if unexpected := sorted((spelling or {}).get(name, name) for name in present - expected):
        message = f"{path} has {name_few(unexpected)}, which the network does not have"
        remedy = "config.json may say less than there is; copy both files again from their source"
        raise DataError(message, help=remedy)


def read_tensors(path: Path, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Read tensors as fp32 under new names; ``names`` maps the file's keys to them."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {n: file.get_tensor(key).to(torch.float32) for key, n in names.items()}
    except (SafetensorError, OSError, ValueError, RuntimeError):
        message = f"{path} is damaged: its tensors do not match its header"
        raise DataError(message, help="copy or save it again") from None
    refuse_no_numbers(path, tensors)
    return tensors


def refuse_no_numbers(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse weights that are NaN or infinite: so would be all that a network makes of them."""
    if wrong := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
        remedy = "copy it again, or go back to weights from before the training diverged"
        raise DataError(f"{path}: weights are NaN or infinite in {name_few(wrong)}", help=remedy)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as transformers does: each once, contiguous."""
    ready = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with durable.writing(path, elsewhere=ELSEWHERE):
        path.touch()
        mode = path.stat().st_mode
        save_file(ready, path, metadata={"format": "pt"})
        with suppress(OSError):  # CIFS and FAT have no modes
            path.chmod(mode)  # safetensors creates files that only the owner can read
