"""What tiny runs saw, and what they learned of it.
Everything is taken at ends that outlive any rebuilding, none at a class or function of bertc:

* What was read: every table lookup that torch is asked for is seen, forwards in training and
  evaluation, whoever asks for it. Its integers are digested by the number of rows of the table,
  exactly: token ids after corruption (and after a generator's guesses), segments, positions,
  languages. One number a lookup, so that a difference says at which of them it began.
* What was asked: losses of every term, gradient norms and scores as ``metrics.jsonl`` has them. A
  wrong target, weight or count of predictions moves a loss by far more than the tolerance.
* What was learned: the weights of the last checkpoint, under the names of the weight table.

Floats are summaries in fp64, equal within ``BOUNDS``: processors add in different orders. The
largest differences seen, over all programs (relative or absolute, whichever is smaller):

================  =====  =====  =======  ======
processor         loss   norm   element  sum
================  =====  =====  =======  ======
SSE               4e-7   1.2e-6  2.0e-6  2.5e-6
AVX2              3e-7   5.5e-7  6.4e-7  9.4e-7
AVX-512 (Zen 4)   2e-7   5.4e-7  1.2e-7  5.5e-7
AMX               <1e-6  <1e-6   <1e-6   1.6e-6
================  =====  =====  =======  ======

The bounds are the next power of ten above: 1e-6 for losses and scores, 1e-5 for norms of gradients
and for weights, which Adam's division by the gradient's own size magnifies.
"""

import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import load_file
from torch import Tensor

from bertc.api import points
from bertc.model.native import kernels
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.runs import export_run
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from tests.net.programs import PROGRAMS, copied, spec

BOUNDS = {"grad_norm": 1e-5, "learned": 1e-5}
"""Bounds on differences under a key; 1e-6 elsewhere."""
ENTRIES = 8
OLD_RUNS = Path(__file__).parent / "old_runs"
OLD = ("electra", "task")
DRAWN_BY_KERNELS = tuple(name for name in PROGRAMS if name.startswith("dropout"))
"""Programs whose dropout is another one where there are no C kernels."""


@contextmanager
def lookups() -> Iterator[dict[str, list[int]]]:
    """Keep a checksum of the integers of each lookup, by the rows of the table."""
    seen, real = defaultdict[str, list[int]](list), torch.embedding

    def look_up(table: Tensor, ids: Tensor, *others: Any) -> Tensor:
        seen[str(len(table))].append(zlib.crc32(ids.long().contiguous().numpy().tobytes()))
        return real(table, ids, *others)

    with patch("torch.embedding", look_up):
        yield seen


def variant(name: str) -> str:
    """The golden that a program is held against on this machine."""
    drawn = name in DRAWN_BY_KERNELS and kernels.missing("fp32")
    return f"{name}, without kernels" if drawn else name


def trained(name: str, folder: Path) -> dict[str, Any]:
    """Train a program, and say what it saw and learned."""
    with lookups() as seen:
        train(points(spec(name))[0], folder / "run", cache=folder.parent / "cache", quiet=True)
    last = max((folder / "run" / "checkpoints").glob("step-*"))
    return {
        "read": dict(seen),
        "asked": metrics(folder / "run"),
        "learned": weights(last / "weights.safetensors"),
    }


def metrics(run: Path) -> list[Any]:
    """The lines of a run without what the machine has to do with."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [_without_machine(line) for line in lines]


MACHINE = ("seconds", "peak_memory_bytes", "pearson", "spearman")
"""Also correlations of answers that are all but alike, which magnify the last bits."""


def _without_machine(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {k: _without_machine(v) for k, v in value.items() if k not in MACHINE}


def weights(file: Path) -> dict[str, list[float]]:
    """For each weight its number of elements, sum, sum of squares, and a few of its elements."""
    return {name: summary(tensor) for name, tensor in sorted(load_file(file).items())}


def summary(tensor: Tensor) -> list[float]:
    """Plain numbers that tell a tensor from another one."""
    x = tensor.double().reshape(-1)
    places = torch.linspace(0, len(x) - 1, ENTRIES).long()
    numbers = [len(x), float(x.sum()), float(x @ x), *x[places].tolist()]
    return [float(f"{value:.9g}") for value in numbers]


def used(name: str, folder: Path) -> dict[str, Any]:
    """Go on with a copy of a run, and evaluate and export it before and after that."""
    run, cache = folder / name, folder / "cache"
    copied(OLD_RUNS / name, run)
    before = _used(run, cache, folder / f"{name} before")
    train(RunFolder(run).read_resolved(), run, resume=True, cache=cache, quiet=True)
    return {
        "fingerprint": RunFolder(run).read_resolved().fingerprint(), "before": before,
        "metrics": metrics(run), "after": _used(run, cache, folder / f"{name} after"),
    }  # fmt: skip


def _used(run: Path, cache: Path, exported: Path) -> dict[str, Any]:
    evaluated = evaluate_run(run, cache=cache, quiet=True).evaluation
    written = export_run(run, exported)
    return {
        "losses": dict(evaluated.losses),
        "class": written.architecture,
        "config": json.loads((exported / "config.json").read_text()),
        "weights": {
            str(file.relative_to(exported)): weights(file)
            for file in sorted(exported.rglob("*.safetensors"))
        },
    }


def differences(golden: Any, now: Any, at: str = "", bound: float = 1e-6) -> list[str]:
    """Where two values differ, integers and texts by anything, floats by more than ``bound``."""
    if isinstance(golden, dict) and isinstance(now, dict):
        if golden.keys() != now.keys():
            return [f"{at}: {sorted(golden.keys() ^ now.keys())} are on one side only"]
        return [
            line
            for k in golden
            for line in differences(golden[k], now[k], f"{at} {k}", BOUNDS.get(k, bound))
        ]
    if isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        pairs = enumerate(zip(golden, now, strict=True))
        return [line for n, (a, b) in pairs for line in differences(a, b, f"{at} [{n}]", bound)]
    if isinstance(golden, float) and isinstance(now, float | int):
        close = math.isclose(golden, now, rel_tol=bound, abs_tol=bound)
        return [] if close else [f"{at}: {golden!r}, now {now!r}"]
    return [] if golden == now else [f"{at}: {golden!r}, now {now!r}"]


def assert_same(golden: Any, now: Any) -> None:
    """Fail with the first differences."""
    lines = differences(golden, now)
    assert not lines, f"{len(lines)} differences\n" + "\n".join(lines[:20])
