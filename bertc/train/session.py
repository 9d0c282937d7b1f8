"""A run in progress: what it is made of, how it begins or is taken up again, how it is saved."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from bertc.data import Corpus, prepare
from bertc.diagnostics import DataError, UsageError
from bertc.ir.resolved import Resolved
from bertc.nn import Model
from bertc.objectives import Tables
from bertc.passes import Plan
from bertc.train import checkpoints
from bertc.train.display import Display
from bertc.train.foreach import Moments
from bertc.train.machine import detect, make_plan
from bertc.train.metrics import Metrics
from bertc.train.run import RunFolder, identity, refuse_changes
from bertc.train.state import Progress, begin, restore
from bertc.train.stopping import Stop
from bertc.train.tables import vocabulary_tables

_PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "datasets", "pydantic")


@dataclass
class Session:
    """Everything the loop works on."""

    resolved: Resolved
    folder: RunFolder
    corpus: Corpus
    tables: Tables
    plan: Plan
    device: torch.device
    model: Model
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
            "run": identity(self.resolved),
            "data": self.corpus.fingerprint,
            "threads": torch.get_num_threads(),
            "versions": versions(),
        }
        checkpoints.save(
            self.folder.checkpoints,
            self.progress.step,
            dict(self.model.named_parameters()),
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
    resolved: Resolved, folder: RunFolder, cache: Path, spec_text: str, display: Display, stop: Stop
) -> Iterator[Session]:
    """Begin a run in its folder, or take up the one that stands there.

    Raises:
        ResumeRefusedError: if the data are not those that the run was started with.
        DataError: if there are checkpoints and every one of them is damaged.
    """
    lock = folder.read_lock() if folder.holds_a_run else {}
    found = _newest(folder, resolved, display)
    plan = plan_of(resolved, lock, display)
    corpus = prepare(resolved, cache, Watched(display, stop))
    if not folder.holds_a_run:
        # Only now: a first try whose text cannot be read must not take the folder's name.
        folder.start(resolved, spec_text)
    if lock:
        old, new = lock["data"], corpus.fingerprint
        refuse_changes([] if old == new else [f"the text: fingerprint {old} -> {new}"])
    else:
        corpus.vocabulary.save(folder.tokenizer)
        folder.write_lock(_surroundings(resolved, plan, corpus))

    device = torch.device(plan.device)
    state = restore(found, resolved, device) if found else begin(resolved, device)
    progress, model = state.progress, state.model
    model.compute_dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
    with Metrics(folder.metrics, progress.metrics_bytes) as metrics:
        yield Session(
            resolved=resolved,
            folder=folder,
            corpus=corpus,
            tables=vocabulary_tables(corpus.vocabulary, device),
            plan=plan,
            device=device,
            model=model,
            moments=state.moments,
            progress=progress,
            metrics=metrics,
            display=display,
            stop=stop,
            saved=progress.step if found else -1,
        )


def _newest(
    folder: RunFolder, resolved: Resolved, display: Display
) -> checkpoints.Checkpoint | None:
    """The checkpoint to go on from, None at the beginning of a run."""
    checkpoints.remove_unfinished(folder.checkpoints)
    found, damaged = checkpoints.newest(folder.checkpoints, identity(resolved))
    for damage in damaged:
        display.note(f"passed over: {damage.reason}")
    if found:
        display.note(f"resuming at step {found.step:,} of {resolved.steps:,}")
    if found is None and damaged:
        raise DataError(
            f"no checkpoint in {folder.checkpoints} is sound; the newest: {damaged[0].reason}",
            help=f"restore a copy, or remove {folder.checkpoints} to begin again at step 0",
        )
    if found is None and folder.model.exists():
        raise UsageError(
            f"{folder.path} holds an imported model, not a training run",
            help="choose another --out",
        )
    return found


def plan_of(resolved: Resolved, lock: dict[str, Any], display: Display) -> Plan:
    """How the run goes on: as it began, where this machine can, so that the same sums are made."""
    plan = make_plan(resolved)
    if lock:
        began = Plan(**{**lock["plan"], **{n: tuple(lock["plan"][n]) for n in _TUPLES}})
        if began.device == plan.device:
            asked = tuple(stage.microbatch for stage in resolved.stages)
            chosen = tuple(a or b for a, b in zip(asked, began.microbatches, strict=True))
            recompute = began.recompute if resolved.run.recompute == "auto" else plan.recompute
            plan = replace(began, microbatches=chosen, recompute=recompute)
        else:
            display.note(
                f"warning: the run began on {began.device} and goes on on {plan.device}; "
                "the result will differ in the last digits"
            )
        _restore_threads(lock["threads"], display)
    display.note("; ".join([f"on {plan.device}", *plan.reasons]))
    return plan


_TUPLES = ("microbatches", "recompute", "reasons")


def _restore_threads(began: int, display: Display) -> None:
    """Use as many threads as the run began with: another number sums in another order."""
    if began != torch.get_num_threads():
        display.note(
            f"warning: the run began with {began} threads, here it would have "
            f"{torch.get_num_threads()}; going on with {began}, for the same sums"
        )
        torch.set_num_threads(began)


def _surroundings(resolved: Resolved, plan: Plan, corpus: Corpus) -> dict[str, Any]:
    """What decides the result beside the program, for lock.json."""
    return {
        "schema": 1,
        "resolved": resolved.fingerprint(),
        "data": corpus.fingerprint,
        "threads": torch.get_num_threads(),
        "plan": asdict(plan),
        "machine": asdict(detect(resolved.run.device)),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages that take part in the arithmetic or the files."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
