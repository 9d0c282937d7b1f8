"""What a step of many micro-batches costs beside the forward and backward passes themselves.

    OMP_NUM_THREADS=1 python -m tests.bench.accumulation [--parts 32] [--rounds 7] [--json FILE]

In turn: the whole step; as many bare forward and backward passes of one micro-batch; and by itself
what a step adds to them: masking every part, counting predictions, and norm, clipping and update
once. Processor time of one thread, which a busy machine disturbs less than the clock on the wall.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bertc.api import resolve
from bertc.learn.objectives import Inputs
from bertc.learn.optim.optimizers import clip, gradient_norm
from bertc.learn.step.objective import counts, divisors
from bertc.machine.machine import determinism
from tests.bench.rig import make_step, random_rows

SPECS = (
    "layers=2 hidden=128 vocab=30522 seq=128 microbatch=8 precision=bf16",
    "layers=4 hidden=256 vocab=30522 seq=128 microbatch=8 precision=bf16",
)


def measure(spec: str, parts: int, rounds: int) -> dict[str, float]:
    """Median seconds of processor time of each thing that is timed."""
    rows = resolve(spec).stages[0].microbatch
    resolved = resolve(f"{spec} batch={parts * rows} steps=1000 compile=off")
    stage = resolved.stages[0]
    step = make_step(resolved, rows)
    inputs = random_rows(stage, resolved.encoder.vocab_size)
    first = Inputs(*(tensor[:rows] for tensor in inputs))
    (micro_batches,) = step.read(first).micro_batches
    factors = torch.full((len(stage.objective),), 1e-3)

    def passes() -> None:
        for index in range(parts):
            torch.manual_seed(index)
            step._objective(micro_batches, factors)[0].backward()

    def count() -> None:
        divisors(stage, counts(stage, [micro_batches] * parts))

    def update() -> None:
        norm = float(gradient_norm(step.parameters))
        clip(step.parameters, norm, stage.optimizer.clip)
        step._rule.update(0.0)

    timed: dict[str, Callable[[], object]] = {
        "step": lambda: step(step.read(inputs), 0, 1e-4),
        "passes": passes,
        "masking": lambda: step.read(inputs),
        "counting": count,
        "update": update,
    }
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    with determinism():
        for run in timed.values():
            run()
        for _ in range(rounds):
            for name, run in timed.items():
                start = time.process_time()
                run()
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    args = parser.parse_args()
    found = {}
    for spec in SPECS:
        seconds = measure(spec, args.parts, args.rounds)
        added = sum(seconds[name] for name in ("masking", "counting", "update"))
        found[spec] = {
            **seconds,
            "added": added / seconds["passes"],
            "step_over_passes": seconds["step"] / seconds["passes"] - 1,
        }
        print(spec)
        for name, value in seconds.items():
            print(f"  {name:10} {value:8.4f} s  {100 * value / seconds['passes']:7.2f}%")
        print(f"  added by the step's own work {100 * added / seconds['passes']:.2f}%, "
              f"step beside passes {100 * found[spec]['step_over_passes']:+.2f}%")  # fmt: skip
    if args.json:
        result = {"torch": torch.__version__, "threads": torch.get_num_threads(), "specs": found}
        Path(args.json).write_text(json.dumps({"parts": args.parts, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
