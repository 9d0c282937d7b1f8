"""The estimate of time beside measured eager steps, on one core of this machine.

    OMP_NUM_THREADS=1 bertc calibrate --threads 1
    OMP_NUM_THREADS=1 python -m tests.bench.duration [--shipped] [--seconds 4] [--json FILE]

The quickest of several steps, masking and update included, in processor time, which a busy machine
disturbs less than the clock on the wall. ``--shipped`` takes 12 shipped specs in small batches.
As on a processor with AVX2 alone, if these are set for both commands: ATEN_CPU_CAPABILITY=avx2
ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 (such a one trains in fp32).
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch

from bertc.api import resolve
from bertc.cost import device_named, estimate
from bertc.ir.program.resolved import Resolved
from bertc.machine.heap import keep_freed_memory
from bertc.machine.machine import determinism
from tests.bench.rig import SHIPPED, make_step, random_rows

MINI = "layers=4 hidden=256 vocab=30522"
MEDIUM = "layers=8 hidden=512 vocab=30522"
BASE = "layers=12 hidden=768 vocab=30522"
SPECS = (
    "layers=2 hidden=64 heads=2 vocab=8k seq=64 batch=64 precision=fp32",
    "layers=2 hidden=64 heads=2 vocab=8k seq=64 batch=64 precision=bf16",
    "layers=2 hidden=128 vocab=30522 seq=128 batch=32 precision=fp32",
    "layers=2 hidden=128 vocab=30522 seq=128 batch=32 precision=bf16",
    "layers=12 hidden=128 vocab=30522 seq=128 batch=32 precision=bf16 share=all",
    f"{MINI} seq=128 batch=32 precision=fp32",
    f"{MINI} seq=128 batch=32 precision=bf16",
    f"{MINI} seq=128 batch=32 precision=bf16 dropout=0",
    f"{MINI} seq=128 batch=4 precision=bf16",
    f"{MINI} seq=128 batch=32 microbatch=4 precision=bf16",
    f"{MINI} seq=128 batch=32 precision=bf16 recompute=on",
    f"{MINI} seq=512 batch=8 precision=bf16",
    f"{MINI} seq=512 batch=8 precision=bf16 dropout=0",
    f"{MEDIUM} seq=128 batch=16 precision=bf16",
    f"{MEDIUM} seq=128 batch=16 precision=fp32",
    f"{MEDIUM} seq=512 batch=4 precision=fp32",
    f"{MEDIUM} seq=128 batch=16 precision=bf16 share=all E=128 optimizer=lamb",
    f"{BASE} seq=128 batch=8 precision=bf16",
    f"{BASE} seq=128 batch=4 precision=fp32",
)


def program(spec: str) -> Resolved:
    """The whole batch at once unless the specification says otherwise."""
    stage = resolve(spec).stages[0]
    at_once = stage.microbatch or stage.batch
    return resolve(f"{spec} steps=100 compile=off", [f"microbatch={at_once}"])


def measure(resolved: Resolved, budget_seconds: float) -> float:
    """Processor seconds of the quickest step, out of at least two."""
    stage = resolved.stages[0]
    step = make_step(resolved, stage.microbatch)
    inputs = random_rows(stage, resolved.encoder.vocab_size)
    seconds: list[float] = []
    with determinism(), keep_freed_memory():
        step(step.read(inputs), 0, 1e-4)
        while len(seconds) < 2 or sum(seconds) < budget_seconds:
            start = time.process_time()
            step(step.read(inputs), len(seconds) + 1, 1e-4)
            seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="of shipped specs")
    parser.add_argument("--json")
    args = parser.parse_args()
    # The estimate is for as many cores as this process may use.
    os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:1]))
    rows = []
    precision = args.precision or device_named("cpu").precision("auto")
    shipped = [f"{each} precision={precision}" for each in SHIPPED]
    for spec in shipped if args.shipped else SPECS:
        resolved = program(spec)
        time_found = estimate(resolved, "cpu").stages[0].time
        measured = measure(resolved, args.seconds)
        rows.append(
            {
                "spec": spec,
                "estimated": time_found.seconds_per_step,
                "measured": measured,
                "error": time_found.seconds_per_step / measured - 1,
                "assumed_mfu": time_found.assumed_mfu,
            }
        )
        print(f"{time_found.seconds_per_step:8.3f} s estimated  {measured:8.3f} s measured  "
              f"{100 * rows[-1]['error']:+5.0f}%  {spec}", flush=True)  # fmt: skip
    errors = [abs(row["error"]) for row in rows]
    error = {"median": statistics.median(errors), "worst": max(errors)}
    print(error)
    if args.json:
        result = {"torch": torch.__version__, "steps": rows, "error": error}
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
