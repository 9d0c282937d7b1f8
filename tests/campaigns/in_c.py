"""Every kind of network as a program in C, compared with bertc, with sanitizers.

    nice python -m tests.campaigns.in_c [--only TEXT] [--fuzz SECONDS] [--int8]

Prints a line each: the largest difference, lines of the file, whether its layers are a loop.
Exits 1 if any differs by more than 1e-5, cannot be compiled without a warning, or fails.
With seconds to fuzz, libFuzzer sends lines and damaged weights to one program with a tokenizer,
of a small masked language model or of other settings: --only "objective=clm".
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bertc.api import resolve
from bertc.base.diagnostics import BertcError
from bertc.lab.c.building import c_files
from tests.campaigns.ideas import AXES, written
from tests.campaigns.options import read_options
from tests.kinds import NETWORKS, OBJECTIVES
from tests.lab.c.programs import compiled, largest_difference, small_graph
from tests.lab.onnx.conftest import NETWORK, run_of
from tests.net.programs import FARM, TOY, copied

UNIONS = ("attention", "positions", "scaled", "share", "norm", "ffn", "table", "generator",
          "objective", "loss", "negatives", "features", "residual", "head", "activation", "gate",
          "body")  # fmt: skip
IDEAS = ("positions", "attention", "activation", "norm", "residual", "head", "pooler", "table",
         "share", "widths")  # fmt: skip


def specs() -> Iterator[tuple[str, str]]:
    """Specs by name: every kind, every objective, and ideas of four layers."""
    kinds = [(f"{u} {kind}", spec) for u in UNIONS for kind, spec in NETWORKS[u].items()]
    for name, spec in [*kinds, *((f"objective {name}", spec) for name, spec in OBJECTIVES.items())]:
        plain = re.sub(r"'.*?'|\(.*?\)", "", f" {spec}")  # settings of the network alone
        plain += " layers= hidden= heads= ffn= dropout=" * (" body=" in plain)  # of transformers
        base = (f"{key}={value}" for key, value in TOY.items() if f" {key}=" not in plain)
        yield name, f"{' '.join(base)} {re.sub('vocab=[0-9]+', 'vocab=120', spec)}"
    for axis in IDEAS:
        yield from ((idea, written(idea)) for idea in AXES[axis])


FUZZER = "-O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all"
SEEDS = (
    b"\0\xffw7 [MASK] w9\tw8", b"\1\xff5 6 7\t0 0 1",
    b'\2\xff{"text": "w7 \\ud83d\\ude00", "pair": "w8", "ids": [2, 5], "segments": [0, 0], '
    b'"positions": [0, 1], "columns": {"mlm": [0, 4]}}', b"\0\1\1\0\0\0\0w5",
)  # fmt: skip


def fuzz(seconds: int, int8: bool, settings: str, folder: Path) -> None:
    """Send lines and damaged weights to the program of a run."""
    run = run_of(folder / "run", NETWORK + (settings or "objective=mlm+sop format=segment-pair"))
    for path, content in c_files(run, folder / "model.c", int8).items():
        path.write_bytes(content)
    (folder / "seeds").mkdir()
    for number, seed in enumerate(SEEDS):
        (folder / f"seeds/{number}").write_bytes(seed)
    source = Path(__file__).parents[1] / "lab/c/fuzz.c"
    command = ["clang", *FUZZER.split(), "-I.", source, "-o", "fuzz", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    limits = f"-max_total_time={seconds}", "-max_len=400", "-rss_limit_mb=0", "-print_final_stats=1"
    subprocess.run(["./fuzz", *limits, "-verbosity=0", "seeds"], check=True, cwd=folder)


def main() -> None:
    """Compare all of them."""
    options = read_options(__doc__, only="", fuzz=0, int8=False)
    wrong, folder = 0, Path(tempfile.mkdtemp())
    if options.fuzz:
        fuzz(options.fuzz, options.int8, options.only, folder)
        return
    copied(FARM, folder)
    os.chdir(folder)
    os.environ["BERTC_OWN"] = "yes"
    chosen = [named for named in specs() if options.only in named[0]]
    for number, (name, spec) in enumerate(chosen):
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
