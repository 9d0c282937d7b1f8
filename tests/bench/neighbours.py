"""Throughput of a training step beside busy processes.

    python -m tests.bench.neighbours [--seconds 4] [--rounds 3] [--precision bf16] [--json FILE]

bert-mini, 32 x 128 tokens, on all cores: bertc's step with threads that give way, as where others
are busy when it begins, or wait as torch has it, and transformers'. Each is a process of its own;
they take turns, alone, beside one, two and three processes that only count, and beside another of
their own kind. ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 make a
processor of fewer instructions of one with more.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SPINS = "200"  # bertc.planning.cores.SPINS, before anything is imported
OTHERS = (0, 1, 2, 3)
COUNTING = "while True: pass"
SPEC = "extends bert-mini seq=128 batch=32 objective=mlm format=blocks precision={} device=cpu"
WAYS = ("threads that give way", "threads waiting as torch has it", "transformers")


def work(way: str, precision: str) -> None:
    """Answer each number of seconds on the input with the tokens a second of that long."""
    if way == WAYS[0]:
        os.environ["GOMP_SPINCOUNT"] = SPINS
    from bertc.api import resolve
    from bertc.bench.baseline import transformers
    from bertc.bench.contender import bertc
    from bertc.host.machine import make_plan

    resolved = resolve(SPEC.format(precision))
    plan, stage = make_plan(resolved), resolved.stages[0]
    own = bertc(resolved, plan, way)
    if way == "transformers":
        own = transformers(resolved, plan, compiled=False)[-1]
    tokens = stage.batch * stage.seq
    with own.open() as step, own.turn():
        step()
        step()
        print(flush=True)  # ready
        for line in sys.stdin:
            began, done = time.perf_counter(), 0
            while (passed := time.perf_counter() - began) < float(line):
                step()
                done += 1
            print(done * tokens / passed, flush=True)


class Worker:
    """One way, in a process of its own."""

    def __init__(self, way: str, precision: str) -> None:
        command = ["-m", "tests.bench.neighbours", "--work", way, "--precision", precision]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def start(self, seconds: float) -> None:
        """Train for so long."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)

    def result(self) -> float:
        """Tokens a second."""
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def counting(number: int) -> Iterator[None]:
    """So many processes that keep a core busy."""
    processes = [subprocess.Popen([sys.executable, "-c", COUNTING]) for _ in range(number)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(precision: str, seconds: float, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Tokens a second by way and number of neighbours."""
    workers = {way: Worker(way, precision) for way in WAYS}
    found: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
    for _ in range(rounds):
        for number in OTHERS:
            with counting(number):
                for way, worker in workers.items():
                    worker.start(seconds)
                    found[way].setdefault(str(number), []).append(worker.result())
        for way, worker in workers.items():
            other = Worker(way, precision)
            other.start(seconds + 1)
            time.sleep(0.3)
            worker.start(seconds)
            found[way].setdefault("its like", []).append(worker.result())
            other.result()
            other.close()
    for worker in workers.values():
        worker.close()
    return found


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", choices=WAYS)
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.precision)
    found = measure(args.precision, args.seconds, args.rounds)
    for way, cells in found.items():
        told = "  ".join(f"beside {k} {statistics.median(v):6,.0f}" for k, v in cells.items())
        print(f"{way:32} {told}", flush=True)
    if args.json:
        names = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
        result = {
            "precision": args.precision,
            "instructions": {n: os.environ[n] for n in names if n in os.environ},
            "machine": [platform.machine(), os.cpu_count()],
            "tokens_per_second": found,
        }
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
