"""What training two networks together costs beside training each alone.

    OMP_NUM_THREADS=1 python -m tests.bench.electra [--rounds 9] [--json FILE]

In turn: ELECTRA's step; a step of its generator as a masked language model by itself; and one of
its encoder that finds tokens replaced at random. Their sum is what the joint step is held against:
it draws the guesses, and has one table of tokens to update instead of two. Processor time of one
thread, which a busy machine disturbs less than the clock on the wall.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bertc.api import resolve
from bertc.ir.program.resolved import Resolved
from bertc.machine.machine import determinism
from tests.bench.rig import make_step, random_rows

SPECS = (
    "electra-small-paper batch=16 precision=bf16",
    "electra-small-paper batch=16 precision=fp32",
    "electra-small seq=128 batch=16 precision=bf16",
    "electra-base layers=2 seq=128 batch=8 precision=bf16",
)


def programs(spec: str) -> dict[str, Resolved]:
    """Both networks together, and each by itself."""
    name, *settings = f"{spec} steps=1000 compile=off".split()
    joint = resolve(name, settings)
    generator = joint.network("generator")
    widths = (
        f"layers={len(generator.layers)} hidden={generator.hidden} "
        f"heads={generator.layers[0].heads} ffn={generator.layers[0].ffn} "
        f"embedding={generator.embedding} generator=none objective=mlm"
    )
    return {
        "joint": joint,
        "generator": resolve(name, [*settings, *widths.split()]),
        "encoder": resolve(name, [*settings, "generator=random", "objective=rtd"]),
    }


def stepping(resolved: Resolved) -> Callable[[], object]:
    """A whole step, masking included."""
    stage = resolved.stages[0]
    step = make_step(resolved, stage.batch)
    inputs = random_rows(stage, resolved.encoder.vocab_size)
    return lambda: step(step.read(inputs), 0, 1e-4)


def measure(spec: str, rounds: int) -> dict[str, float]:
    """Median seconds of each step, and the joint one as a part of the sum of the others."""
    timed = {name: stepping(resolved) for name, resolved in programs(spec).items()}
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    with determinism():
        for run in timed.values():
            run()
        for _ in range(rounds):
            for name, run in timed.items():
                start = time.process_time()
                run()
                seconds[name].append(time.process_time() - start)
    found = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = (j / (g + e) for j, g, e in zip(*seconds.values(), strict=True))
    return {**found, "ratio": statistics.median(ratios)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = {}
    for spec in SPECS:
        rows[spec] = found = measure(spec, args.rounds)
        cells = "  ".join(f"{name} {value:.3f}" for name, value in found.items())
        print(f"{cells}  {spec}", flush=True)
    if args.json:
        result = {"torch": torch.__version__, "threads": torch.get_num_threads(), "steps": rows}
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
