"""What compiling the training step costs and gives: by layer (as bertc does), or whole.

    python -m tests.bench.compile [--depths 4 24] [--rounds 21] [--json FILE] [--set hidden=256 ...]

First, for each depth and scheme in a process of its own, without any cache and in an empty folder
(objects of the C++ compiler are found again there even with caches off): what the first step took
(forward, backward and update; processor time counts the C++ compiler), its graphs and graph breaks,
and recompiles over batches of rows of other lengths. Then the step compiled as a whole, by layer
and not at all, in turns in one process. Beside other work read processor times, of one thread
(OMP_NUM_THREADS=1): with more, waiting counts.

Without --set: bert-mini at width 128, 8 x 64 tokens, masked LM on rows padded to their length.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch
from torch._dynamo.utils import counters

from bertc.api import resolve
from bertc.ir.program.resolved import Resolved
from bertc.learn.objectives import Inputs
from bertc.learn.step.objective import make_objective
from bertc.learn.step.step import TrainStep
from bertc.machine.heap import keep_freed_memory
from bertc.machine.machine import detect, determinism
from tests.bench.rig import make_step

SCHEMES = ("layers", "whole")
SETTINGS = ["hidden=128", "heads=2", "seq=64", "batch=8", "objective=mlm", "precision=bf16"]
EPOCH = 20

Steady = dict[str, float]
"""Medians of a step, and its speed, that of the whole being 1."""


def program(depth: int, settings: list[str]) -> Resolved:
    """bert-mini of another depth and shape."""
    return resolve("bert-mini", [*SETTINGS, f"layers={depth}", "steps=1000", *settings])


def training_step(scheme: str, resolved: Resolved) -> TrainStep:
    """The training step compiled by a scheme, or not at all (``eager``)."""
    stage = resolved.stages[0]
    step = make_step(resolved, stage.batch)
    objective = make_objective(step._model, stage, compiled=scheme == "layers")
    if scheme == "whole":
        objective = torch.compile(objective, fullgraph=True, dynamic=False)
    step._objective = objective
    return step


def batch(resolved: Resolved, number: int) -> Inputs:
    """Rows of random tokens, each of another length."""
    stage, draw = resolved.stages[0], torch.Generator().manual_seed(number)
    shape = (stage.batch, stage.seq)
    lengths = torch.randint(stage.seq // 4, stage.seq + 1, shape[:1], generator=draw)
    ids = torch.randint(5, resolved.encoder.vocab_size, shape, generator=draw)
    ids[:, 0] = 2
    ids[torch.arange(stage.seq) >= lengths[:, None]] = 0
    zeros = torch.zeros_like(lengths)
    return Inputs(
        token_ids=ids, segment_ids=torch.zeros_like(ids), lengths=lengths,
        example_ids=torch.arange(stage.batch) + number * stage.batch,
        copies=zeros, starts=zeros[:, None], pair_labels=zeros[:, None],
        languages=zeros[:, None].expand(-1, 2), following=zeros - 1, backward=zeros,
    )  # fmt: skip


def first_step(scheme: str, resolved: Resolved) -> tuple[TrainStep, dict[str, float]]:
    """A step that has been taken over an epoch, and what its first time took and compiled."""
    step = training_step(scheme, resolved)
    started, began = time.perf_counter(), sum(os.times()[:4])
    step(step.read(batch(resolved, 0)), 0, 1e-4)
    seconds, processor = time.perf_counter() - started, sum(os.times()[:4]) - began
    graphs = counters["stats"]["unique_graphs"]
    for number in range(1, EPOCH):
        step(step.read(batch(resolved, number)), number, 1e-4)
    return step, {
        "first_seconds": seconds,
        "first_cpu_seconds": processor,
        "graphs": graphs,
        "recompiles": counters["stats"]["unique_graphs"] - graphs,
        "graph_breaks": sum(counters["graph_break"].values()),
    }


def in_turns(steps: dict[str, TrainStep], resolved: Resolved, rounds: int) -> dict[str, Steady]:
    """Each step beside the first of them, which is the one compiled as a whole."""
    inputs = batch(resolved, 0)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for turn in range(rounds + 2):
        for name, step in steps.items():
            started, began = time.perf_counter(), time.process_time()
            step(step.read(inputs), turn, 1e-4)
            taken = time.perf_counter() - started, time.process_time() - began
            times[name].append(taken)
    kept = {name: found[2:] for name, found in times.items()}
    first = next(iter(kept.values()))
    return {
        name: {
            "seconds": statistics.median(wall for wall, _ in found),
            "cpu_seconds": statistics.median(cpu for _, cpu in found),
            "speed": statistics.median(a[1] / b[1] for a, b in zip(first, found, strict=True)),
            "speed_of_best": min(a[1] for a in first) / min(b[1] for b in found),
        }
        for name, found in kept.items()
    }


def measure(scheme: str, resolved: Resolved, rounds: int) -> dict[str, Any]:
    """The first step; after the one compiled as a whole, also a step of each kind in turns."""
    step, first = first_step(scheme, resolved)
    if scheme != "whole":
        return {"first": first}
    others = {name: training_step(name, resolved) for name in ("layers", "eager")}
    return {"first": first, "steady": in_turns({"whole": step, **others}, resolved, rounds)}


def _in_own_process(arguments: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
            "TORCHINDUCTOR_CACHE_DIR": folder,
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.compile", *arguments],
            env=environment, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _print_steady(depth: int, steady: dict[str, Steady]) -> None:
    for name, found in steady.items():
        print(
            f"{depth:3} layers  {name:7} a step {1000 * found['seconds']:.1f} ms "
            f"({1000 * found['cpu_seconds']:.1f} ms of processor time)  speed, of the whole, "
            f"by processor time {found['speed']:.3f}, of the best {found['speed_of_best']:.3f}",
            flush=True,
        )


def main() -> None:
    """Measure every scheme at every depth, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 24])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--set", nargs="*", default=[], dest="settings")
    parser.add_argument("--json")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        resolved = program(args.depths[0], args.settings)
        with determinism(), keep_freed_memory():
            print(json.dumps(measure(args.only, resolved, args.rounds)))
        return
    report(args.depths, args.rounds, args.settings, args.json)


def report(depths: list[int], rounds: int, settings: list[str], json_file: str | None) -> None:
    """The table, and with a file name the same as JSON."""
    found: dict[str, dict[str, Any]] = {}
    for depth in depths:
        own = ["--depths", str(depth), "--rounds", str(rounds), "--set", *settings]
        found[str(depth)] = {}
        for name in SCHEMES:
            answer = _in_own_process(["--only", name, *own])
            one = found[str(depth)][name] = answer["first"]
            print(
                f"{depth:3} layers  {name:7} first step {one['first_seconds']:6.1f} s  "
                f"({one['first_cpu_seconds']:.1f} s of processor time)  graphs {one['graphs']}  "
                f"breaks {one['graph_breaks']}  recompiles {one['recompiles']}",
                flush=True,
            )
            if "steady" in answer:
                found[str(depth)]["steady"] = answer["steady"]
                _print_steady(depth, answer["steady"])
    result = {
        "command": " ".join(["python -m tests.bench.compile", *sys.argv[1:]]),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": detect("cpu").name,
        "python": platform.python_version(),
        "settings": [*SETTINGS, *settings],
        "depths": found,
    }
    if json_file:
        with open(json_file, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
