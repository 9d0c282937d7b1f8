"""The C kernels as a library, compiled once for each kind of processor and cached."""

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from bertc.base.storage import durable
from bertc.base.storage.paths import cache_folder

SOURCE = Path(__file__).with_name("kernels.c")
COMPILER_FLAGS = (
    "-O3", "-fPIC", "-shared", "-std=gnu11", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
)  # fmt: skip
VECTORS = {
    "AVX512": (
        "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma",
        "-mprefer-vector-width=512",
    ),
    "AVX2": ("-mavx2", "-mfma"),
}  # fmt: skip
"""Compiler flags by the CPU capability that torch reports."""
COMPILE_TIMEOUT_SECONDS = 60
SUM = ".sha256"
"""Ending of the file with the checksum of a library and its name."""
ValueType = Literal["bf16", "fp32"]


@cache
def load_library(value: ValueType) -> ctypes.CDLL | str:
    """Load the kernels for a dtype, or say why there are none; the first call compiles them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if platform.system() != "Linux":
        return f"not on {platform.system()}"
    command = [*COMPILER_FLAGS, *VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())]
    command += ["-DBF16"] if value == "bf16" else []
    try:
        content = SOURCE.read_bytes()
        target = " ".join((platform.machine(), *command)).encode()
        name = f"{value}-{hashlib.sha256(content + target).hexdigest()[:16]}.so"
        path = cache_folder() / f"kernels-{os.geteuid()}" / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_own(path.parent):
            return f"{path.parent} can be written by other users"
        if not _is_whole(path):
            if compiler is None:
                return "no C compiler (cc) is installed"
            _compile([compiler, *command], path)
        # OpenMP is left to resolve to torch's own: a second one would start threads of its own.
        return ctypes.CDLL(str(path))
    except subprocess.SubprocessError:
        return f"{compiler} cannot compile them"
    except OSError as error:
        return f"they cannot be kept or loaded ({error.strerror or 'wrong system'})"


def _is_own(folder: Path) -> bool:
    """True if this user alone can put a library there: in a shared cache others may plant one."""
    status = folder.stat()
    owned = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return owned and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_whole(path: Path) -> bool:
    """True if a library is there as it was compiled: a damaged one ends the process by a signal."""
    written = path.with_suffix(SUM)
    there = path.is_file() and written.is_file()
    return there and written.read_text("utf-8", "replace") == _checksum(path)


def _checksum(path: Path) -> str:
    return f"{durable.digest(path)} {path.name}"


def _compile(command: list[str], place: Path) -> None:
    """Compile to ``place`` atomically; other processes may do the same at once."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        library, source = Path(folder) / place.name, str(SOURCE)
        objects = library.with_suffix(".o")
        compiled = [*(c for c in command if c != "-shared"), "-c", source, "-o", str(objects)]
        linked = [command[0], "-shared", str(objects), "-o", str(library), "-lm"]
        for step in (compiled, linked):
            subprocess.run(step, check=True, capture_output=True, timeout=COMPILE_TIMEOUT_SECONDS)
        library.with_suffix(SUM).write_text(_checksum(library))
        for file in (library, library.with_suffix(SUM)):
            target = place.with_name(file.name)
            if target.is_dir():  # no file replaces a folder
                durable.remove(target)
            os.replace(file, target)
