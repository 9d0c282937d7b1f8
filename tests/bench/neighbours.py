"""Throughput of a training step beside busy processes, for ways in which threads may wait.

    python -m tests.bench.neighbours [--seconds 5] [--rounds 3] [--precision bf16] [--json FILE]

Each way is a process of its own that trains bert-mini, 32 x 128 tokens; they take turns, alone and
beside one, two and three processes that only count, and beside another of their own kind.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAYS: dict[str, dict[str, str]] = {
    "as torch has it": {},
    "sleep at once": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"},
    "spin 200": {"GOMP_SPINCOUNT": "200"},
    "spin 1,000": {"GOMP_SPINCOUNT": "1000"},
    "spin 4,000": {"GOMP_SPINCOUNT": "4000"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
COUNTING = "while True: pass"
SPEC = "layers=4 hidden=256 vocab=30522 seq=128 batch=32 precision={}"


def work(precision: str) -> None:
    """Answer each number of seconds on the input with the tokens a second of that long."""
    from bertc.api import resolve
    from bertc.train.machine import determinism
    from tests.bench.rig import make_step, random_rows

    resolved = resolve(SPEC.format(precision))
    stage = resolved.stages[0]
    step, rows = make_step(resolved, stage.batch), random_rows(stage, 30522)
    done = 0
    with determinism():
        for _ in range(2):
            step(step.read(rows), 0, 1e-4)
        print("ready", flush=True)
        for line in sys.stdin:
            began, first = time.perf_counter(), done
            while (passed := time.perf_counter() - began) < float(line):
                done += 1
                step(step.read(rows), done, 1e-4)
            print((done - first) * stage.batch * stage.seq / passed, flush=True)


class Worker:
    """One way of waiting, in a process of its own."""

    def __init__(self, settings: dict[str, str], precision: str) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.neighbours", "--work", "--precision", precision],
            env=env | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, seconds: float) -> None:
        """Train for so long."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)

    def result(self) -> float:
        """Tokens a second."""
        return float(self._read())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def counting(number: int) -> Iterator[None]:
    """So many processes that keep a core busy."""
    busy = [subprocess.Popen([sys.executable, "-c", COUNTING]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--ways", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", action="store_true")
    args = parser.parse_args()
    if args.work:
        return work(args.precision)
    ways = {n: w for n, w in WAYS.items() if not args.ways or n in args.ways.split(",")}
    workers = {name: Worker(settings, args.precision) for name, settings in ways.items()}
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
    for _ in range(args.rounds):
        for number in range(4):
            with counting(number):
                for name, worker in workers.items():
                    worker.start(args.seconds)
                    found[name].setdefault(f"beside {number}", []).append(worker.result())
        for name, worker in workers.items():
            other = Worker(ways[name], args.precision)
            other.start(args.seconds + 1)
            time.sleep(0.3)
            worker.start(args.seconds)
            found[name].setdefault("beside a run", []).append(worker.result())
            other.result()
            other.close()
        for name, cells in found.items():
            told = "  ".join(f"{k} {statistics.median(v):6,.0f}" for k, v in cells.items())
            print(f"{name:24} {told}", flush=True)
        print(flush=True)
    for worker in workers.values():
        worker.close()
    if args.json:
        result: dict[str, Any] = {"precision": args.precision, "tokens_per_second": found}
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
