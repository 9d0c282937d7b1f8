"""What a step of XLNet costs beside a step of BERT of the same shape.

    OMP_NUM_THREADS=1 python -m tests.bench.xlnet [--rounds 7] [--json FILE]

Both by turns in one process: rows corrupted, forward, backward, update. Processor time of one
thread, which a busy machine disturbs less than the clock on the wall. The share of FLOPs is beside
it.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from bertc.api import resolve
from bertc.cost import estimate
from bertc.learn.step.step import TrainStep
from bertc.machine.machine import determinism
from tests.bench.rig import make_step, random_rows

SHAPES = (
    "layers=4 hidden=256 seq=128 batch=16",
    "layers=4 hidden=256 seq=512 batch=4",
    "layers=3 hidden=768 seq=128 batch=8",
)
SYSTEMS = {
    "bert": "objective=mlm",
    "xlnet": "objective=plm head=linear attention=relative(untie=true, segments=true) segments=0 "
    "norm=post(embeddings=false) dropout=dropout(0.1, 0.1, 0.1)",
}


def measure(shape: str, rounds: int) -> dict[str, float]:
    """Median seconds of a step of each, and the ratios of both costs."""
    common = f"{shape} vocab=32000 precision=fp32 compile=off device=cpu steps=1000"
    programs = {name: resolve(f"{common} {spec}") for name, spec in SYSTEMS.items()}
    steps: dict[str, TrainStep] = {}
    for name, resolved in programs.items():
        steps[name] = make_step(resolved, resolved.stages[0].batch)
    inputs = random_rows(programs["bert"].stages[0], 32_000)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    with determinism():
        for number in range(rounds + 1):
            for name, step in steps.items():
                start = time.process_time()
                step(step.read(inputs), number, 1e-4)
                seconds[name].append(time.process_time() - start)
    medians = {name: statistics.median(values[1:]) for name, values in seconds.items()}
    flops = {n: estimate(r).flops.train_per_example for n, r in programs.items()}
    return {
        **medians,
        "ratio": medians["xlnet"] / medians["bert"],
        "flops": flops["xlnet"] / flops["bert"],
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    args = parser.parse_args()
    found = {}
    print(f"{'':38}{'BERT':>9}{'XLNet':>9}{'ratio':>8}{'FLOPs':>8}")
    for shape in SHAPES:
        cost = found[shape] = measure(shape, args.rounds)
        print(
            f"{shape:38}{cost['bert']:8.3f}s{cost['xlnet']:8.3f}s"
            f"{cost['ratio']:8.2f}{cost['flops']:8.2f}",
            flush=True,
        )
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
