"""Every shipped spec, and pairs of ideas, as files of PyTorch that compute what bertc does.

    nice python -m tests.campaigns.sources [--pairs 200] [--only TEXT]
    nice python -m tests.campaigns.sources --with-training TEXT

A file is written for each, loaded without bertc's modules, and compared with them on random rows:
states, scores of heads and, up to 150M parameters in fp64, gradients; its parameters are counted
against the estimate. Prints a line each: lines of the file, seconds to write, seconds to compare.

With training, LEARNING is trained on a text for 50 steps, by a file and by bertc, without dropout,
whose draws differ. Prints the largest difference of a loss, the last one, lines of the training.

Exits 1 if any differs (losses by 1e-5) or cannot be written.
"""

import argparse
import gc
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from bertc.api import points
from bertc.base.diagnostics import BertcError, SpecError
from bertc.base.resources import shipped_specs
from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.model import build
from bertc.use.source.checking import check_source
from bertc.use.source.file import emit_source
from tests.campaigns.ideas import AXES, written

MOST = 1_200_000_000
"""Parameters up to which a program is built here."""
LEARNING = (
    "objective=mlm+nsp optimizer=adamw(lr=1e-3)",
    "objective=mlm format=full-sentences optimizer=adam(lr=1e-3,clip=0)",
    "objective=mlm(unit=word)+sop share=all E=32 optimizer=lamb(lr=1e-3)",
    "objective=ngram+sop share=all E=32 optimizer=lamb(lr=1e-3)",
    "objective=span format=single-segment optimizer=adam(lr=1e-3,bias_correction=false)",
    "objective=clm norm=pre optimizer=stable-adamw(lr=1e-3,schedule=wsd)",
    "objective=50*rtd+mlm(replace=100/0/0,distinct=false) generator=0.5 E=32 "
    "optimizer=adamw(lr=1e-3)",
    "objective=rtd generator=unigram optimizer=adamw(lr=1e-3,schedule=cosine)",
)
SMALL = (
    "layers=2 hidden=64 heads=2 seq=64 batch=32 steps=50 vocab=wordpiece(1k) dropout=0 "
    "precision=fp32 log_every=1"
)


def main() -> None:
    """Write and compare all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--with-training", type=Path, metavar="TEXT")
    options = parser.parse_args()
    data, wrong = options.with_training, 0
    chosen = [(each, each) for each in LEARNING] if data else programs(options.pairs)
    for name, program in chosen:
        if options.only not in name:
            continue
        try:
            outcome = trained(program, data.resolve()) if data else compared(program)
        except (AssertionError, BertcError) as error:
            outcome, wrong = f"WRONG {error}", wrong + 1
        except Exception as error:  # any mistake is a line of the table
            outcome, wrong = f"FAILED {type(error).__name__}: {error}"[:300], wrong + 1
        print(f"{name:40} {outcome}", flush=True)
        gc.collect()
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
        except (BertcError, SpecError, ValueError):
            continue  # refused, or a grid
        pairs -= 1
        yield " ".join(values), resolved


def compared(resolved: Resolved) -> str:
    """A line on the file of a program."""
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
    return f"{line} {time.perf_counter() - begun:6.1f} s"


def trained(settings: str, text: Path) -> str:
    """A line on the losses of 50 steps, of a file and of bertc."""
    spec = f"{SMALL} {settings} data=files('{text}')"
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder) / "train.py", Path(folder) / "run"
        ran("-m", "bertc.cli", "build", spec, "--with-training", "-o", str(file))
        written = [float(loss) for loss in re.findall(r"^\d+ loss (\S+)", ran(str(file)), re.M)]
        ran("-m", "bertc.cli", "train", spec, "--out", str(run))
        metrics = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        losses = [line["loss"] for line in metrics if "grad_norm" in line]
        training = file.read_text().partition("\n# Stage")[2].splitlines()
    apart = max(abs(one - other) for one, other in zip(written, losses, strict=True))
    assert apart <= 1e-5, f"losses differ by {apart:.1e}"
    return f"{apart:.1e}, loss {losses[-1]:.4f}, {len(training)} lines"


def ran(*arguments: str) -> str:
    """What a Python command prints."""
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    main()
