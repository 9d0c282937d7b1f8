"""The lock of a run: written where it begins, compared where it goes on."""

from dataclasses import asdict

import torch

from bertc.data.contents import contents
from bertc.host.display import Display
from bertc.runs import changes
from bertc.runs.folder import RunFolder
from bertc.runs.lock import Lock, versions
from bertc.storage import durable
from bertc.train.start import Outside, Start


def write_or_check_lock(
    start: Start, outside: Outside, folder: RunFolder, spec_text: str, display: Display
) -> None:
    """Write the lock file at the first start; on resume, check data and weights against it."""
    resolved, corpus, lock, source = start.resolved, start.corpus, outside.lock, outside.source
    if not folder.holds_a_run:
        # Only now: a first try whose text cannot be read must not claim the folder.
        folder.start(resolved, spec_text)
    if lock:
        pairs = {"the text: fingerprint": (lock.data, corpus.fingerprint)}
        if source:  # read again, since there is no checkpoint yet
            pairs["the weights of init: sha256"] = (lock.init, source.sha256)
        for teacher, digest in outside.teachers.items():
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
        _lock(start, outside).write(folder.lock)
    for text in source.lines() if source else ():
        display.note(text)


def _lock(start: Start, outside: Outside) -> Lock:
    """The lock of this run: everything beside the program that decides its result."""
    return Lock(
        resolved=start.resolved.fingerprint(),
        data=start.corpus.fingerprint,
        contents={name: (*content,) for name, content in contents(start.corpus).items()},
        init=outside.source.sha256 if outside.source else "",
        teachers=outside.teachers,
        threads=torch.get_num_threads(),
        plan=start.plan,
        machine=asdict(start.machine),
        versions=versions(),
    )
