"""Safetensors files, with the header checked before any tensor is read; nothing is unpickled."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertc.diagnostics import DataError, MissingInputError, UnsafeError
from bertc.interop.folder import ELSEWHERE
from bertc.storage import durable
from bertc.storage.json_file import parse_json
from bertc.storage.paths import is_file, is_folder

MAX_HEADER_BYTES = 16 * 2**20
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Entry:
    """Dtype and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def find_weights(folder: Path, name: str = "model.safetensors") -> Path:
    """Find the weights file of a folder.

    Raises:
        UnsafeError: if the folder has only pickled weights.
        DataError: if the weights are split over several files.
        MissingInputError: if there are no weights.
    """
    path = folder / name
    if is_file(path):
        return path
    files = sorted(folder.iterdir()) if is_folder(folder) else []
    for file in files:
        if file.name == f"{name}.index.json":
            raise DataError(
                f"{file}: the weights are split over several files",
                help=f"save the model again as one {name}, max_shard_size='100GB'",
            )
        if file.suffix in PICKLED:
            raise UnsafeError(
                f"{file} is a pickle, and reading it can run code",
                help="if you trust it, convert it to safetensors and import that",
            )
    raise MissingInputError(f"{folder} has no {name}", help="name a folder that has one")


def read_header(path: Path) -> dict[str, Entry]:
    """Name, dtype and shape of every tensor in a file.

    Raises:
        DataError: if it is no safetensors file, or its header is larger than 16 MiB.
    """
    try:
        with path.open("rb") as file:
            first = file.read(8)
            length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
            if length > MAX_HEADER_BYTES:
                raise ValueError(f"has a header of {length} bytes, the limit is {MAX_HEADER_BYTES}")
            header = parse_json(file.read(length), MAX_HEADER_BYTES)
        header.pop("__metadata__", None)
        return {name: _entry(name, fields) for name, fields in header.items()}
    except OSError as error:
        raise MissingInputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(
            f"{path} is not a valid safetensors file: it {error}", help="copy or save it again"
        ) from None


def _entry(name: str, fields: Any) -> Entry:
    match fields:
        case {"dtype": str(dtype), "shape": list(shape)} if all(type(n) is int for n in shape):
            return Entry(dtype, tuple(shape))
        case _:
            raise ValueError(f"has an invalid entry for {name[:80]!r}")


def check_entry(path: Path, key: str, entry: Entry, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of the wrong shape, or of a dtype other than fp32, fp16 and bf16.

    Raises:
        DataError: naming the tensor and both shapes.
    """
    if entry.shape != shape:
        raise DataError(
            f"{path}: {key} has shape {_shape(entry.shape)}, config.json asks for {_shape(shape)}",
            help="the weights file does not match its config.json",
        )
    if entry.dtype not in FLOATS:
        raise DataError(
            f"{path}: {key} has dtype {entry.dtype}",
            help=f"supported dtypes: {', '.join(FLOATS)}",
        )


def read_tensors(path: Path, wanted: Mapping[str, str]) -> dict[str, Tensor]:
    """Read tensors as fp32 under new names; ``wanted`` maps the file's keys to them.

    Raises:
        DataError: if the file is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(key).to(torch.float32) for key, name in wanted.items()}
    except (SafetensorError, OSError, ValueError, RuntimeError):
        raise DataError(
            f"{path} is damaged: its tensors do not match its header",
            help="copy or save it again",
        ) from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as transformers does: each once, contiguous.

    Raises:
        CannotWriteError: if the disk is full or the folder cannot be written.
    """
    ready = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with durable.writing(path, elsewhere=ELSEWHERE):
        path.touch()
        mode = path.stat().st_mode
        save_file(ready, path, metadata={"format": "pt"})
        path.chmod(mode)  # safetensors creates files that only the owner can read


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "()"
