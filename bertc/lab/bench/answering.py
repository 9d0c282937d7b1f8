"""A process that answers texts with one network in one setup, and is timed at it."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertc import Resolved
from bertc.lab.bench.cases import Setup

TURN_SECONDS = 0.02
"""Seconds that a turn takes at least, after a first run that is not timed."""
MOST_RUNS = 50
"""Runs of a turn at most."""
TextArrays = dict[str, NDArray[np.int64]]
Run = Callable[[TextArrays], object]


@dataclass(frozen=True)
class Subject:
    """A network to be timed: the folder of its weights, if any, and ONNX files by precision."""

    name: str
    resolved: Resolved
    folder: Path | None
    graphs: dict[str, Path]


def answer_turns(
    pipe: Connection, subject: Subject, setup: Setup, sizes: Sequence[tuple[int, int]]
) -> None:
    """Load the network and warm up at every size; then take a turn at each size received."""
    run = _open_subject(subject, setup)
    texts = {size: full_rows(subject.resolved, size) for size in sizes}
    for rows in texts.values():
        run(rows)
    warm = {size: _seconds(run, rows) for size, rows in texts.items()}
    pipe.send(None)
    while True:
        size = pipe.recv()
        count = max(1, min(MOST_RUNS, math.ceil(TURN_SECONDS / warm[size])))
        if count > 1:
            run(texts[size])  # what other processes took of the caches comes back
        pipe.send([_seconds(run, texts[size]) for _ in range(count)])


def full_rows(resolved: Resolved, size: tuple[int, int]) -> TextArrays:
    """Rows of random tokens without padding: how many, and tokens of each."""
    draws = np.random.default_rng(0)
    return {
        "input_ids": draws.integers(resolved.encoder.vocab_size, size=size),
        "attention_mask": np.ones(size, dtype=np.int64),
        "token_type_ids": np.zeros(size, dtype=np.int64),
        "language_ids": np.zeros(size, dtype=np.int64),
    }


def _open_subject(subject: Subject, setup: Setup) -> Run:
    """A function that answers rows."""
    if setup.runtime == "onnx":
        from bertc.lab.onnx.runtime import GraphSession

        return GraphSession(subject.graphs[setup.precision], setup.threads)

    import torch

    from bertc import build, load
    from bertc.lab_api import graph_of

    torch.set_num_threads(setup.threads)
    model = build(subject.resolved) if subject.folder is None else load(subject.folder)
    if setup.precision == "bf16":
        model.to(torch.bfloat16).compute_dtype = torch.bfloat16
    graph = graph_of(model, heads=False)

    def run(texts: TextArrays) -> object:
        with torch.inference_mode():
            return graph(**{name: torch.from_numpy(texts[name]) for name in graph.inputs})

    return run


def _seconds(run: Run, texts: TextArrays) -> float:
    started = time.perf_counter()
    run(texts)
    return time.perf_counter() - started
