"""Write goldens anew, on purpose: `python -m tests.net.renew compiled steps`."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bertc.model.native import kernels, library
from tests.net import compiled, goldens, steps, test_steps
from tests.net.programs import FARM, PROGRAMS, UNTRAINED


def renew(names: list[str]) -> None:
    """Write the goldens of these names."""
    programs = compiled.compiled()
    for name in names:
        match name:
            case "compiled":
                texts = {key: compiled.texts(resolved) for key, resolved in programs.items()}
                goldens.write("compiled.json.xz", texts)
            case "steps":
                goldens.write("steps.json.xz", _steps())
            case "older":
                with TemporaryDirectory() as folder:
                    used = {key: test_steps.used(key, Path(folder)) for key in test_steps.NAMES}
                goldens.write("older.json.xz", used)
            case _:
                at = compiled.FIGURES.index(name)
                goldens.write(f"{name}.json", compiled.figures(programs)[at])


def _steps() -> dict[str, Any]:
    """What every program learns, where dropout is drawn by the kernels without them too."""
    torch.use_deterministic_algorithms(True)
    assert steps.with_kernels(), "a C compiler is needed"
    found = {}
    with TemporaryDirectory() as folder:
        for name in PROGRAMS:
            if name not in UNTRAINED:
                found[name] = steps.trained(name, Path(folder) / name.replace(" ", "-"))
        library.load_library = lambda value: library.Loaded(None, "left out")
        kernels.load_library = library.load_library
        kernels._kernels.cache_clear()
        for name in steps.DRAWN_BY_KERNELS:
            again = Path(folder) / f"again-{name.replace(' ', '-')}"
            found[steps.variant(name)] = steps.trained(name, again)
    return found


if __name__ == "__main__":
    os.chdir(FARM)
    renew(sys.argv[1:])
