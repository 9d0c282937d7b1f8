"""A run in progress: what it is made of, how it begins or is taken up again, how it is saved."""

import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

import bertc
from bertc.data import Corpus, prepare
from bertc.ir.base import Weight
from bertc.ir.resolved import Resolved, model_weights
from bertc.nn import build
from bertc.objectives import Tables
from bertc.passes import Plan
from bertc.train import checkpoints
from bertc.train.display import Display
from bertc.train.machine import detect, make_plan
from bertc.train.metrics import Metrics, Sums
from bertc.train.optimizers import Moments, zero_moments
from bertc.train.run import RunFolder, refuse_changes
from bertc.train.stopping import Stop

_PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "datasets", "pydantic")


@dataclass
class Progress:
    """How far a run is. With the weights and moments, all that resuming needs.

    ``evaluated`` is the last step that was evaluated, ``sums`` what the next line of metrics
    averages, ``metrics_bytes`` how long the file of metrics was.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    evaluated: int = 0
    metrics_bytes: int = 0
    sums: Sums = field(default_factory=Sums)

    @staticmethod
    def of(content: Any) -> "Progress":
        """From a checkpoint's JSON."""
        return Progress(**{**content, "sums": Sums(**content["sums"])})


@dataclass
class Session:
    """Everything the loop works on. ``weights`` are the parameters that each stage's module holds."""

    resolved: Resolved
    folder: RunFolder
    table: tuple[Weight, ...]
    corpus: Corpus
    tables: Tables
    plan: Plan
    device: torch.device
    weights: dict[str, nn.Parameter]
    moments: Moments
    progress: Progress
    metrics: Metrics
    display: Display
    stop: Stop
    saved: int

    def save(self) -> None:
        """Write a checkpoint of this very moment, unless there is one.

        Raises:
            CannotWriteError: if the disk has no room; the last good checkpoint stays.
        """
        if self.saved == self.progress.step:
            return
        self.progress.metrics_bytes = self.metrics.synced_bytes()
        facts = {
            "resolved": self.resolved.fingerprint(),
            "data": self.corpus.fingerprint,
            "threads": torch.get_num_threads(),
            "versions": versions(),
        }
        checkpoints.save(
            self.folder.checkpoints,
            self.progress.step,
            self.weights,
            self.moments,
            asdict(self.progress),
            facts,
            self.resolved.run.keep,
        )
        self.saved = self.progress.step


class Watched:
    """A display for the preparation of data that ends it when someone asks the run to stop."""

    def __init__(self, display: Display, stop: Stop) -> None:
        self._display, self._stop = display, stop

    def begin(self, task: str, total: int, unit: str) -> None:
        """A part of the preparation starts."""
        self._stop.check()
        self._display.begin(task, total, unit)

    def advance(self, amount: int) -> None:
        """``amount`` more of it is done."""
        self._stop.check()
        self._display.advance(amount)

    def end(self) -> None:
        """It is done."""
        self._display.end()

    def note(self, message: str) -> None:
        """Something worth a line."""
        self._display.note(message)


@contextmanager
def open_session(
    resolved: Resolved,
    folder: RunFolder,
    cache: Path,
    spec_text: str,
    display: Display,
    stop: Stop,
) -> Iterator[Session]:
    """Begin a run in its folder, or take up the one that stands there.

    Raises:
        ResumeRefusedError: if the data are not those that the run was started with.
    """
    lock = folder.read_lock() if folder.holds_a_run else {}
    if not folder.holds_a_run:
        folder.start(resolved, spec_text)
    plan = _plan(resolved, lock, display)
    corpus = prepare(resolved, cache, Watched(display, stop))
    data = {"fingerprint": corpus.fingerprint}
    if lock:
        old = lock["data"]["fingerprint"]
        refuse_changes([] if data == lock["data"] else [f"data: {old} -> {corpus.fingerprint}"])
    else:
        corpus.vocabulary.save(folder.tokenizer)
        folder.write_lock(surroundings(resolved, plan, data))

    checkpoints.remove_unfinished(folder.checkpoints)
    found, damaged = checkpoints.newest(folder.checkpoints, resolved.fingerprint())
    for damage in damaged:
        display.note(f"passed over: {damage.reason}")
    device, table = torch.device(plan.device), model_weights(resolved)
    if found is None:
        progress = Progress()
        weights = dict(build(resolved, plan.device).named_parameters())
        moments = zero_moments(weights)
    else:
        progress = Progress.of(found.progress)
        display.note(f"resuming at step {found.step:,} of {resolved.steps:,}")
        loaded = checkpoints.load_weights(found.folder / checkpoints.WEIGHTS, table)
        weights = {name: nn.Parameter(value.to(device)) for name, value in loaded.items()}
        loaded = checkpoints.load_moments(found.folder / checkpoints.OPTIMIZER, table)
        moments = {name: value.to(device) for name, value in loaded.items()}
    with Metrics(folder.metrics, progress.metrics_bytes) as metrics:
        yield Session(
            resolved=resolved,
            folder=folder,
            table=table,
            corpus=corpus,
            tables=make_tables(corpus, device),
            plan=plan,
            device=device,
            weights=weights,
            moments=moments,
            progress=progress,
            metrics=metrics,
            display=display,
            stop=stop,
            saved=progress.step if found else -1,
        )
