"""Every shipped spec, and pairs of ideas, as files of PyTorch that compute what bertc does.

    nice python -m tests.campaigns.sources [--pairs 200] [--only TEXT] [--python PYTHON] ...

A file is written for each, loaded without bertc's modules, and compared with them on random rows:
states, scores of heads and, up to 150M parameters in fp64, gradients; its parameters are counted
against the estimate. Prints a line each: lines of the file, seconds to write, seconds to compare.
Small ones leave as folders with own code too, which transformers loads here and by each PYTHON.

Exits 1 if any differs or cannot be written.
"""

import gc
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from bertc.api import points
from bertc.base.diagnostics import BertcError
from bertc.base.storage.paths import shipped_specs
from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.model import build
from bertc.use.source.checking import check_source
from bertc.use.source.file import emit_source
from tests.campaigns.ideas import AXES, written
from tests.campaigns.options import read_options
from tests.hub.programs import leaves_with_code

MOST = 1_200_000_000
"""Parameters up to which a program is built here."""


def main() -> None:
    options = read_options(__doc__, pairs=200, only="", python=[sys.executable])
    wrong, folders = 0, Path(tempfile.mkdtemp())
    for number, (name, program) in enumerate(programs(options.pairs)):
        if options.only not in name:
            continue
        try:
            outcome = compared(program, folders / str(number))
        except (AssertionError, BertcError) as error:
            outcome, wrong = f"WRONG {error}", wrong + 1
        except Exception as error:  # any mistake is a line of the table
            outcome, wrong = f"FAILED {type(error).__name__}: {error}"[:300], wrong + 1
        print(f"{name:40} {outcome}", flush=True)
        gc.collect()
    for python in options.python:
        command = [python, "tests/hub/loaded.py", *folders.iterdir()]
        wrong += subprocess.run(command, check=False).returncode
    sys.exit(bool(wrong))


def programs(pairs: int) -> Iterator[tuple[str, Resolved]]:
    """Shipped programs, those of one grid after the other, then pairs of ideas."""
    for spec in shipped_specs():
        for resolved in points(spec):
            yield resolved.name, resolved
    chosen = list(combinations(AXES, 2))
    draw = random.Random(5)
    while pairs:
        values = [draw.choice(AXES[axis]) for axis in draw.choice(chosen)]
        try:
            (resolved,) = points(written(*values))
        except (BertcError, ValueError):
            continue  # refused, or a grid
        pairs -= 1
        yield " ".join(values), resolved


def compared(resolved: Resolved, folder: Path) -> str:
    """A line on the file of a program, which is a folder too if it is small."""
    begun = time.perf_counter()
    resolved = resolved.merged  # a file has the network that a run with an adapter ends with
    source = emit_source(resolved)
    seconds = time.perf_counter() - begun
    counted = estimate(resolved, "h200").parameters.total
    built = sum(w.numel() for w in build(resolved, device="meta").parameters())
    assert counted == built, f"{counted:,} parameters are counted, {built:,} built"
    line = f"{len(source.splitlines()):4} lines {seconds:5.1f} s"
    if built > MOST:
        return f"{line}, not compared: {built:,} parameters"
    begun = time.perf_counter()
    check_source(source, resolved)
    if built < 10_000_000:
        leaves_with_code(resolved, folder)
    return f"{line} {time.perf_counter() - begun:6.1f} s"


if __name__ == "__main__":
    main()
