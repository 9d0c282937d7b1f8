"""The run's lock (versions, data, machine), and its estimated duration."""

import platform
from dataclasses import asdict
from functools import cache
from importlib.metadata import version

import torch

from bertc.data import PreparedCorpus
from bertc.estimate.units import duration_text
from bertc.host.display import SHORTEST_FORECAST_SECONDS, Display
from bertc.host.machine import cost_here, detect
from bertc.ir.program.resolved import Resolved
from bertc.planning.plan import Plan
from bertc.planning.world import World
from bertc.runs import changes
from bertc.runs.folder import RunFolder
from bertc.runs.lock import Lock
from bertc.step.teachers import digests
from bertc.storage import durable
from bertc.train.init_from import Source

_PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "datasets", "pydantic")


def write_or_check_lock(
    resolved: Resolved,
    folder: RunFolder,
    spec_text: str,
    lock: Lock | None,
    plan: Plan,
    corpus: PreparedCorpus,
    source: Source | None,
    display: Display,
) -> None:
    """Write the lock file at the first start; on resume, check data and weights against it."""
    if not folder.holds_a_run:
        # Only now: a first try whose text cannot be read must not claim the folder.
        folder.start(resolved, spec_text)
    teachers = digests(resolved, corpus.vocabulary)
    if lock:
        pairs = {"the text: fingerprint": (lock.data, corpus.fingerprint)}
        if source:  # read again, since there is no checkpoint yet
            pairs["the weights of init: sha256"] = (lock.init, source.sha256)
        for teacher, digest in teachers.items():
            there = lock.teachers.get(teacher, "none")
            pairs[f"the weights of teacher {teacher}: sha256"] = (there, digest)
        changes.refuse(
            [f"{name} {old} -> {new}" for name, (old, new) in pairs.items() if old != new]
        )
        if (before := folder.read_resolved()).steps < resolved.steps:
            display.note(f"made for {before.steps:,} steps, the run goes on to {resolved.steps:,}")
            folder.go_on(before, resolved)
    else:
        with durable.writing(folder.tokenizer):
            corpus.vocabulary.save(folder.tokenizer)
            durable.sync_all(folder.tokenizer)
        _lock(resolved, plan, corpus, source, teachers).write(folder.lock)
    for text in source.lines() if source else ():
        display.note(text)


def note_duration(
    resolved: Resolved, plan: Plan, corpus: PreparedCorpus, display: Display, world: World
) -> None:
    """Note the estimated duration of a run."""
    time = cost_here(resolved, corpus, world).time
    if time.seconds_total > SHORTEST_FORECAST_SECONDS:
        duration = duration_text(time.seconds_total)
        display.note(f"{resolved.steps:,} steps are estimated to take {duration} on {time.device}")


def _lock(
    resolved: Resolved,
    plan: Plan,
    corpus: PreparedCorpus,
    source: Source | None,
    teachers: dict[str, str],
) -> Lock:
    """The lock of this run: everything beside the program that decides its result."""
    return Lock(
        resolved=resolved.fingerprint(),
        data=corpus.fingerprint,
        init=source.sha256 if source else "",
        teachers=teachers,
        threads=torch.get_num_threads(),
        plan=plan,
        machine=asdict(detect(resolved.run.device)),
        versions=versions(),
    )


@cache  # packages stay what they are, and each look reads a file of theirs
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute results or write files."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
