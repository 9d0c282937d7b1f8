"""The goldens, and how they are read; `python -m tests.net.goldens compiled steps` renews some."""

import difflib
import json
import lzma
import os
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bertc.model.native import kernels, library
from tests.net import compiled, steps
from tests.net.programs import FARM, PROGRAMS, UNTRAINED

GOLDENS = Path(__file__).parent / "goldens"
LINES = 40


@cache
def read(name: str) -> Any:
    """A golden by its file's name; those that end with .xz are packed."""
    content = (GOLDENS / name).read_bytes()
    return json.loads(lzma.decompress(content) if name.endswith(".xz") else content)


def write(name: str, value: Any) -> None:
    """Put a golden in its place."""
    GOLDENS.mkdir(exist_ok=True)
    if name.endswith(".xz"):
        content = lzma.compress(json.dumps(value).encode(), preset=9)
    else:
        rows = (f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in value.items())
        content = ("{\n" + ",\n".join(rows) + "\n}\n").encode()
    (GOLDENS / name).write_bytes(content)


def difference(before: str, after: str) -> str:
    """What changed between two texts, the first lines of it."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) == len(new):  # in no time, however much differs
        pairs = zip(old, new, strict=True)
        lines = [line for a, b in pairs if a != b for line in (f"-{a}", f"+{b}")]
    else:
        lines = list(difflib.unified_diff(old, new, "golden", "now", n=2, lineterm=""))
    more = [f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join([*lines[:LINES], *more])


def renew(names: list[str]) -> None:
    """Write the goldens of these names."""
    programs = compiled.compiled()
    for name in names:
        match name:
            case "compiled":
                texts = {key: compiled.texts(resolved) for key, resolved in programs.items()}
                write("compiled.json.xz", texts)
            case "steps":
                write("steps.json.xz", _steps())
            case "older":
                with TemporaryDirectory() as folder:
                    used = {key: steps.used(key, Path(folder)) for key in steps.OLD}
                write("older.json.xz", used)
            case _:
                at = compiled.FIGURES.index(name)
                write(f"{name}.json", compiled.figures(programs)[at])


def _steps() -> dict[str, Any]:
    """What every program learns, where dropout is drawn by the kernels without them too."""
    torch.use_deterministic_algorithms(True)
    assert not kernels.missing("fp32"), "a C compiler is needed"
    found = {}
    with TemporaryDirectory() as folder:
        for name in PROGRAMS:
            if name not in UNTRAINED:
                found[name] = steps.trained(name, Path(folder) / name.replace(" ", "-"))
        library.load_library = lambda value: "left out"
        kernels.load_library = library.load_library
        kernels._kernels.cache_clear()
        for name in steps.DRAWN_BY_KERNELS:
            again = Path(folder) / f"again-{name.replace(' ', '-')}"
            found[steps.variant(name)] = steps.trained(name, again)
    return found


if __name__ == "__main__":
    os.chdir(FARM)
    renew(sys.argv[1:])
