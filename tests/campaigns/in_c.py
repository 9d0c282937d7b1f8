"""Every kind of network as a program in C, compared with bertc, with sanitizers.

    nice python -m tests.campaigns.in_c [--only TEXT]

Prints a line each: the largest difference, lines of the file, whether its layers are a loop.
Exits 1 if any differs by more than 1e-5, cannot be compiled without a warning, or fails.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bertc.api import resolve
from bertc.base.diagnostics import BertcError
from tests.campaigns.ideas import AXES, written
from tests.campaigns.options import read_options
from tests.kinds import NETWORKS, OBJECTIVES
from tests.lab.c.programs import compiled, largest_difference, small_graph
from tests.net.programs import FARM, TOY, copied

UNIONS = (
    "attention",
    "positions",
    "scaled",
    "share",
    "norm",
    "ffn",
    "table",
    "generator",
    "objective",
    "loss",
    "negatives",
    "features",
    "residual",
    "head",
    "activation",
    "gate",
    "body",
)
IDEAS = ("positions", "attention", "activation", "norm", "residual", "head", "pooler", "table",
         "share", "widths")  # fmt: skip


def specs() -> Iterator[tuple[str, str]]:
    """Specs by name: every kind, every objective, and ideas of four layers."""
    kinds = [(f"{u} {kind}", spec) for u in UNIONS for kind, spec in NETWORKS[u].items()]
    for name, spec in [*kinds, *((f"objective {name}", spec) for name, spec in OBJECTIVES.items())]:
        plain = re.sub("'.*?'", "", f" {spec}")  # a teacher's settings are no other's
        base = (f"{key}={value}" for key, value in TOY.items() if f" {key}=" not in plain)
        yield name, f"{' '.join(base)} {spec}"
    for axis in IDEAS:
        yield from ((idea, written(idea)) for idea in AXES[axis])


def main() -> None:
    """Compare all of them."""
    options, wrong, folder = read_options(__doc__, only=""), 0, Path(tempfile.mkdtemp())
    copied(FARM, folder)
    os.chdir(folder)
    os.environ["BERTC_OWN"] = "yes"
    for number, (name, spec) in enumerate(specs()):
        if options.only not in name:
            continue
        try:
            graph = small_graph(resolve(spec))
            program = compiled(graph, folder / str(number))
            difference = largest_difference(graph, program)
            text = program.with_suffix(".c").read_text()
            said = f"{difference:.1e} {len(text.splitlines())} lines{' loop' * ('layer++' in text)}"
            wrong += difference > 1e-5
        except BertcError as error:
            said = f"refused: {error}"[:120]
        except Exception as error:  # any mistake is a line of the table
            said, wrong = f"FAILED {type(error).__name__}: {error}"[:300], wrong + 1
        print(f"{name:50} {said}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
