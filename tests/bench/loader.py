"""How fast batches are made, on one core: ``python tests/bench/loader.py CORPUS [SETTING...]``.

CORPUS is a path as in ``files("...")``. Prepares it in a fresh cache, then measures the batches of
rows before corruption, in tokens a second of processor time, padding included; of five rounds the
best counts.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bertc.data import Silent, prepare
from bertc.diagnostics import Diagnostics
from bertc.passes import resolve
from bertc.syntax import load

CASES = [
    "vocab=wordpiece(8k) seq=128 batch=32 objective=mlm",
    "vocab=wordpiece(8k) seq=128 batch=32 objective=mlm+nsp",
    "vocab=wordpiece(8k) seq=128 batch=256 objective=mlm+sop",
    "vocab=wordpiece(8k) seq=512 batch=32 objective=mlm",
    "vocab=wordpiece(8k) seq=512 batch=256 objective=mlm+sop",
]
SECONDS = 1.0
ROUNDS = 5


class Timing(Silent):
    """Progress that remembers how long each task took."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, float]] = []

    def begin(self, task: str, total: int, unit: str) -> None:
        """Start the clock."""
        self.tasks.append((task, time.perf_counter()))

    def end(self) -> None:
        """Stop it."""
        task, start = self.tasks.pop()
        self.tasks.append((task, time.perf_counter() - start))


def main() -> None:
    """Print one line a task and a case."""
    path, *extra = sys.argv[1:]
    with tempfile.TemporaryDirectory() as cache:
        for case in CASES:
            settings = f'layers=1 hidden=64 steps=100k data="{path}" {case} {" ".join(extra)}'
            diagnostics = Diagnostics()
            timing = Timing()
            resolved = resolve(load(settings, [], diagnostics)[0], diagnostics)
            start = time.perf_counter()
            corpus = prepare(resolved, Path(cache), timing)
            print(f"prepare {time.perf_counter() - start:8.2f} s   {case}")
            for task, seconds in timing.tasks:
                print(f"        {seconds:8.2f} s   {task}")
            stage = corpus.stage(0)
            rates = []
            for _ in range(ROUNDS):
                start, step = time.process_time(), 0
                while time.process_time() - start < SECONDS:
                    stage.train(step)
                    step += 1
                tokens = step * stage.batch * stage.seq
                rates.append(tokens / (time.process_time() - start) / 1e6)
            print(f"batches {max(rates):8.1f} M tokens/s   (median {np.median(rates):.1f})")


if __name__ == "__main__":
    main()
