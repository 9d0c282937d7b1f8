"""The C kernels, compiled once for a kind of processor and kept in the cache."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from bertc.storage.paths import cache_folder

SOURCE = Path(__file__).with_name("kernels.c")
FLAGS = (
    "-O3", "-fPIC", "-shared", "-std=gnu11", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
)  # fmt: skip
VECTORS = {
    "AVX512": (
        "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma",
        "-mprefer-vector-width=512",
    ),
    "AVX2": ("-mavx2", "-mfma"),
}  # fmt: skip
"""What is told to the compiler where torch finds these instructions."""
SECONDS = 60
Value = Literal["bf16", "fp32"]


class Loaded(NamedTuple):
    """The library, or why there is none."""

    library: ctypes.CDLL | None
    missing: str


@cache
def load(value: Value) -> Loaded:
    """The kernels for tensors of this type; the first call on a machine compiles them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if platform.system() != "Linux":
        return Loaded(None, f"not on {platform.system()}")
    command = [*FLAGS, *VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())]
    command += ["-DBF16"] if value == "bf16" else []
    try:
        content = SOURCE.read_bytes()
        told = " ".join((platform.machine(), *command)).encode()
        name = f"{value}-{hashlib.sha256(content + told).hexdigest()[:16]}.so"
        place = cache_folder() / "kernels" / name
        if not place.is_file():
            if compiler is None:
                return Loaded(None, "no C compiler (cc) is installed")
            place.parent.mkdir(parents=True, exist_ok=True)
            _compile([compiler, *command], place)
        # What is missing in it, OpenMP, is torch's own: another one would have threads beside it.
        return Loaded(ctypes.CDLL(str(place)), "")
    except subprocess.SubprocessError:
        return Loaded(None, f"{compiler} cannot compile them")
    except OSError as error:
        return Loaded(None, f"they cannot be kept or loaded ({error.strerror or 'wrong system'})")


def _compile(command: list[str], place: Path) -> None:
    """Compile to ``place``, whole or not at all, whoever else does so."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made, source = Path(folder) / place.name, str(SOURCE)
        objects = made.with_suffix(".o")
        compiled = [*(c for c in command if c != "-shared"), "-c", source, "-o", str(objects)]
        linked = [command[0], "-shared", str(objects), "-o", str(made), "-lm"]
        for step in (compiled, linked):
            subprocess.run(step, check=True, capture_output=True, timeout=SECONDS)
        os.replace(made, place)
