"""The lock of a run: written where it begins, compared where it goes on."""

from dataclasses import asdict
from typing import Any

import torch

from bertc.base.storage import durable
from bertc.data.contents import contents
from bertc.hub.belonging import ORIGIN, write_digests
from bertc.hub.sentences import vectors_of_init, write_sentences
from bertc.machine.display import Display
from bertc.run.records import changes
from bertc.run.records.folder import RunFolder
from bertc.run.records.lock import Lock, versions
from bertc.run.train.start import Outside, Start

READ_AGAIN = ("data", "teachers")
"""Digests of what a run that goes on reads anew; the rest its checkpoint has taken in."""


def write_or_check_lock(
    start: Start, outside: Outside, folder: RunFolder, spec_text: str, display: Display
) -> dict[str, Any]:
    """Write the lock file at the first start; on resume, check data and weights against it.

    Returns its digests, which checkpoints repeat.
    """
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
        if sentences := vectors_of_init(resolved.run.init):
            write_sentences(sentences, folder.sentences, resolved.encoder)
        write_digests(folder.path)
        lock = _lock(start, outside)
        lock.write(folder.lock)
    for text in source.lines() if source else ():
        display.note(text)
    return {name: lock.content()[name] for name in ORIGIN}


def _lock(start: Start, outside: Outside) -> Lock:
    """The lock of this run: everything beside the program that decides its result.

    Where a checkpoint is there and the lock was removed, it repeats the checkpoint's digests.
    """
    lock = Lock(
        resolved=start.resolved.fingerprint(),
        data=start.corpus.fingerprint,
        contents=contents(start.corpus),
        init=outside.source.sha256 if outside.source else "",
        teachers=outside.teachers,
        threads=torch.get_num_threads(),
        plan=start.plan,
        machine=asdict(start.machine),
        versions=versions(),
    )
    before = outside.checkpoint.facts.get("origin", {}) if outside.checkpoint else {}
    pairs = {n: (before.get(n, now), now) for n, now in lock.content().items() if n in READ_AGAIN}
    changes.refuse(
        [f"{ORIGIN[n]}: {old} -> {new}" for n, (old, new) in pairs.items() if old != new]
    )
    return lock.model_copy(update={name: before[name] for name in ORIGIN if name in before})
