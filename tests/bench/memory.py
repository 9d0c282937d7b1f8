"""The estimate of memory beside measured training steps on this machine's CPU.

    python -m tests.bench.memory [--shipped] [--process] [--only TEXT] [--json FILE]

Each configuration runs masking, forward, backward and update of the real step, twice, with batches
read ahead as a run has them. ``--shipped`` takes 12 shipped specs in small batches, their first
stage in ``--precision`` (of these alone). Figures are above what was in use before the model was
made:

    allocated   the most that torch's allocator had given out at any moment, from its own ledger
    process     with --process, from processes of their own: the most main memory held (VmHWM), with
                the libraries' own buffers. First with freed memory going back to the system at
                once, so that it is what the step needs; then as the C library does by default
"""

import argparse
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from torch.autograd.profiler import profile

from bertc.api import resolve
from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.feed import Feed
from bertc.machine.machine import determinism
from bertc.run.beginning.synthetic import RandomText
from tests.bench.rig import SHIPPED, make_step
from tests.kinds import PAIRS

SMALL = "layers=2 hidden=64 heads=2 vocab=8k seq=64"
MINI = "layers=4 hidden=256 vocab=30522 seq=128"
BASE = "layers=12 hidden=768 vocab=30522 seq=128"
STUDENT = "layers=3 hidden=256 heads=4 vocab=8k seq=128 batch=16 precision=fp32"
TEACHER = "teacher=spec('layers=6 hidden=256 heads=4 vocab=8k seq=128')"
WIDE = "teacher=spec('layers=6 hidden=512 heads=4 vocab=8k seq=128')"
CONFIGURATIONS = (
    f"{SMALL} batch=16 precision=fp32",
    f"{SMALL} batch=64 precision=fp32 dropout=0",
    f"{SMALL} batch=64 precision=bf16 optimizer=lamb",
    f"{SMALL} batch=64 microbatch=16 precision=bf16",
    "layers=2 hidden=128 vocab=30522 seq=128 batch=32 precision=fp32",
    "layers=2 hidden=128 vocab=30522 seq=512 batch=16 precision=bf16",
    "layers=12 hidden=128 vocab=30522 seq=128 batch=32 precision=fp32 share=all",
    "layers=12 hidden=256 vocab=30522 seq=128 batch=16 precision=bf16 share=all E=64",
    "layers=12 hidden=256 vocab=30522 seq=256 batch=8 precision=fp32 share=attention E=128",
    f"{MINI} batch=32 precision=fp32",
    f"{MINI} batch=32 precision=fp32 dropout=0",
    f"{MINI} batch=32 precision=bf16",
    f"{MINI} batch=64 precision=bf16 dropout=0",
    f"{MINI} batch=32 precision=bf16 optimizer=lamb",
    f"{MINI} batch=32 precision=bf16 objective=mlm+sop",
    f"{MINI} batch=32 precision=bf16 objective=span+sbo format=single-segment",
    f"{MINI} batch=32 precision=fp32 E=128 generator=0.25 objective=rtd*50+mlm",
    f"{MINI} batch=32 precision=bf16 E=128 generator=1 objective=rtd*50+mlm optimizer=lamb",
    f"{MINI} batch=32 microbatch=8 precision=bf16 generator=network(0.5,tie=none) "
    "objective=rtd*50+mlm",
    f"{MINI} batch=32 precision=bf16 recompute=on generator=0.5 objective=rtd(over=masked)+mlm",
    f"{MINI} batch=32 precision=fp32 dropout=0 generator=unigram objective=rtd",
    f"{MINI} batch=32 precision=bf16 objective=tlm {PAIRS}",
    f"{MINI} batch=32 microbatch=8 precision=fp32 objective=tlm(unit=span)+sbo {PAIRS}",
    f"{MINI} batch=32 precision=fp32 objective=plm",
    f"{MINI} batch=32 precision=bf16 objective=plm attention=relative",
    f"{MINI} batch=4 precision=bf16",
    f"{MINI} batch=4 precision=fp32 optimizer=lamb",
    f"{MINI} batch=64 microbatch=4 precision=fp32",
    f"{MINI} batch=64 microbatch=16 precision=bf16",
    f"{MINI} batch=32 precision=fp32 norm=pre activation=relu",
    f"{MINI} batch=32 precision=bf16 recompute=on",
    "layers=8 hidden=512 vocab=30522 seq=128 batch=16 precision=bf16",
    "layers=8 hidden=512 vocab=30522 seq=512 batch=4 precision=fp32",
    "layers=4 hidden=512 vocab=30522 seq=512 batch=4 precision=bf16 dropout=0 objective=mlm+sop",
    "layers=4 hidden=512 vocab=30522 seq=256 batch=8 microbatch=4 precision=bf16 optimizer=lamb",
    "layers=6 hidden=768 vocab=30522 seq=256 batch=4 precision=fp32 share=attention",
    f"{BASE} batch=4 precision=fp32 dropout=0",
    f"{BASE} batch=8 precision=bf16",
    f"{BASE} batch=8 microbatch=4 precision=bf16",
    f"{BASE} batch=8 precision=bf16 share=all E=128 objective=mlm+sop optimizer=lamb",
    f"{BASE} batch=8 precision=bf16 recompute=on",
    f"{STUDENT} objective=mlm+kd(logits,T=2) {TEACHER}",
    f"{STUDENT} objective=kd(logits,loss=mse) {TEACHER}",
    f"{STUDENT} objective=mlm+kd(logits,over=masked) {TEACHER}",
    f"{STUDENT} objective=5*kd(logits,T=2)+2*mlm+kd(hidden,loss=cosine,layers=last) {TEACHER}",
    f"{STUDENT} objective=kd(hidden) {WIDE}",
    f"{STUDENT} objective=mlm+kd(cls,normalize=true)+kd(embeddings) {WIDE}",
    f"{STUDENT} objective=kd(attention) {WIDE}",
    f"{STUDENT} objective=kd(attention,of=probabilities)+mlm {TEACHER}",
    f"{STUDENT} objective=kd(attention,of=probabilities,loss=kl) {TEACHER}",
    f"{STUDENT} objective=mlm+kd(relations,heads=16) {WIDE}",
)
STEPS = 2


def allocated_bytes(resolved: Resolved) -> int:
    """The most bytes that torch had given out at any moment, from making the model on."""
    gc.collect()  # what an earlier model left is not to be let go while this one is watched
    gc.freeze()  # what is left stays: the next collection need not look at it again
    # Not torch.profiler, which makes a tree of all operations of what it recorded.
    with profile(profile_memory=True) as profiler:
        _steps(resolved)
    assert profiler.kineto_results, "a profiler that has run holds its results"
    events = profiler.kineto_results.events()
    used = peak = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        used += event.nbytes()
        peak = max(peak, used)
    return peak


def process_bytes(resolved: Resolved) -> int:
    """The most main memory that the process held, above what it holds now."""
    precision = resolved.run.precision
    small = "layers=1 hidden=32 heads=2 vocab=64 seq=16 batch=4 microbatch=2 steps=100"
    _steps(resolve(f"{small} precision={precision}"))  # the kernels' code is no part of a step
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
    _steps(resolved)
    return _status("VmHWM") - before


def _steps(resolved: Resolved) -> None:
    stage = resolved.stages[0]
    step = make_step(resolved, stage.microbatch or stage.batch)
    text = RandomText(stage, resolved.encoder.vocab_size)
    cpu = torch.device("cpu")
    with determinism(), Feed(text, 0, stage.steps, cpu, step.corrupt) as feed:
        for number in range(min(STEPS, stage.steps)):
            step(feed.take(), number, 1e-4)


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, f"/proc/self/status has no {field}"
    return 1024 * int(found[1])


def program(spec: str) -> Resolved:
    """A configuration as a program; the whole batch at once unless it says otherwise."""
    resolved = resolve(f"{spec} steps=100 compile=off")
    stage = resolved.stages[0]
    at_once = stage.microbatch or stage.batch
    return resolve(f"{spec} steps=100 compile=off", [f"microbatch={at_once}"])


def process_peak(spec: str, environment: dict[str, str]) -> int:
    """``process_bytes`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.memory", "--one", spec],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout.split()[-1])


def row(spec: str, process: bool) -> dict[str, float | str]:
    """A line of the table."""
    estimated = estimate(program(spec), "cpu").stages[0].memory.peak_bytes
    figures = {"allocated": allocated_bytes(program(spec))}
    if process:
        figures["process"] = process_peak(spec, {"MALLOC_MMAP_THRESHOLD_": str(2**18)})
        figures["process_default_malloc"] = process_peak(spec, {})
    errors = {f"error_{name}": estimated / value - 1 for name, value in figures.items()}
    return {"spec": spec, "estimated": estimated, **figures, **errors}


def summary(rows: list[dict[str, float | str]], names: tuple[str, ...]) -> dict[str, object]:
    """Median and worst error of each figure."""
    errors = {name: [abs(float(found[f"error_{name}"])) for found in rows] for name in names}
    return {
        name: {"median": statistics.median(values), "worst": max(values)}
        for name, values in errors.items()
    }


def main() -> None:
    """Measure all configurations and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="configurations that contain this text")
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--process", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(process_bytes(program(args.one)))
        return
    names = ("allocated",)
    if args.process:
        names += ("process", "process_default_malloc")
    rows = []
    print("MiB: estimated,", ", ".join(names))
    shipped = [f"{spec} precision={args.precision}" for spec in SHIPPED]
    specs = shipped if args.shipped else CONFIGURATIONS
    for spec in (spec for spec in specs if args.only in spec):
        rows.append(found := row(spec, args.process))
        cells = (
            f"{found[name] / 2**20:7.0f} {100 * found[f'error_{name}']:+5.1f}%" for name in names
        )
        print(f"{found['estimated'] / 2**20:7.0f}", *cells, spec, sep="  ", flush=True)
    result = {
        "torch": torch.__version__, "machine": platform.machine(),
        "threads": torch.get_num_threads(), "bytes": rows, "error": summary(rows, names),
    }  # fmt: skip
    print(result["error"])
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
