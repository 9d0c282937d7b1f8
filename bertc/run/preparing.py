"""``bertc prepare``: text made tokens in a folder or a store, its end, and how far that is."""

import sys
import tempfile
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np

from bertc.base.cores import available_cores
from bertc.base.diagnostics import DataError, UsageError, listed, several
from bertc.base.storage.place import FolderAt
from bertc.cost.units import bytes_text
from bertc.ir.program import Resolved
from bertc.machine.display import watching
from bertc.text.cache.store import MANIFEST_FILE, Facts, Progress, clear
from bertc.text.prepared import opening
from bertc.text.prepared.making import begin_preparing, make_parts, rows_of
from bertc.text.prepared.opening import PreparedPart, part_at, put_folder, read_corpus
from bertc.text.prepared.plan import CORPUS_FILE, HELD_OUT, TOKENIZER, PreparationPlan, read_plan
from bertc.text.rows import rewriting
from bertc.text.rows.cleaning import copies, keys_in, removal_text
from bertc.text.rows.tokens import SPLITS, TOKEN_FILES, open_tokens

GO_ON = "the same command goes on"
STORE_READERS = 16
"""Requests to a store at once, where parts are looked at."""


def prepare_text(
    resolved: Resolved,
    to: str,
    cache: Path,
    part: tuple[int, int] | None,
    workers: int,
    command: str,
) -> str:
    """Prepare the text of a spec, or one share of its parts; return a line about it."""
    place = FolderAt(to)
    with watching(GO_ON) as progress:
        work = begin_preparing(resolved, place, cache, progress, command)
        nth, shares = part or (1, 1)
        names = work.plan.parts[nth - 1 :: shares]
        make_parts(work, names, progress, workers)
    if part is None:
        return finish_text(to)
    if not names:
        count = several(len(work.plan.parts), "part")
        return f"{to}: share {nth} of {shares}: the text has {count}, so this share has none"
    return f"{to}: share {nth} of {shares}, {several(len(names), 'part')}, is prepared"


def finish_text(to: str) -> str:
    """Write the manifest of text whose parts are all there; return a line about it."""
    with watching(GO_ON) as progress:
        corpus = finish_preparing(FolderAt(to), progress)
    facts = corpus.facts
    held_out = rewriting.held_out_remark(facts, corpus.plan.holdout)
    remarks = removal_text(facts.get("removed", {})), held_out
    return (
        f"{to}: {facts['train']['tokens']:,} tokens of {facts['train']['documents']:,} documents "
        f"to train on, {facts['heldout']['tokens']:,} held out, in "
        f'{several(len(corpus.parts), "part")}; read with data=prepared("{to}")'
        + "".join(f"\n{remark}" for remark in remarks if remark)
    )


def standing(to: str) -> tuple[str, bool]:
    """The progress of a preparation with its missing and damaged parts; True if it has none."""
    place = FolderAt(to)
    with watching("nothing was changed") as progress:
        plan, parts, missing, damaged = survey(place, progress)
    in_store, command = place.folder is None, plan.read.get("command")
    corpus = read_corpus(place) if place.sizes("").get(CORPUS_FILE) else None
    if corpus and part_at(place, HELD_OUT, None, 0 if in_store else sys.maxsize) != corpus.heldout:
        damaged.append(HELD_OUT)
    size = f", {bytes_text(int(plan.read.get('bytes', 0)))} of text" if command else ""
    lines = [f"{to}: {plan.words('text')}{size}"]
    lines.append(f"  parts    {len(parts):,} of {len(plan.parts):,}{', by size' * in_store}")
    for word, names in (("missing", missing), ("damaged", damaged)):
        if names:
            lines.append(f"  {word}  {len(names):,}: {listed(names)}")
    lines.append(f"  tokens   {sum(part.facts['train']['tokens'] for part in parts):,}")
    absent = [*missing, *damaged]
    if absent:
        lines.append(f"  {plan.remedy(to, absent)}")
    elif corpus is None or corpus.parts != tuple(parts):
        lines.append("  not finished: --finish writes the manifest")
    if command:
        lines.append(f"  files edited since are not seen here: {command} compares them")
    return "\n".join(lines), not absent


def finish_preparing(place: FolderAt, progress: Progress) -> opening.PreparedText:
    """Write the manifest of a place whose parts are all there.

    Another process may do so at once: a change of a part changes nothing the second time.
    """
    plan, parts = _all_parts(place, progress)
    if plan.clean.get("unique"):
        progress.begin("comparing documents", len(parts), "parts")
        read = []
        for part in parts:
            with tempfile.TemporaryDirectory(prefix="bertc-") as name:
                hashes = [f"{split}.hashes" for split in SPLITS]
                read.append(keys_in(_copied(place, part, hashes, Path(name))))
            progress.advance(1)
        for number, keys in copies(read).items():
            _change(place, plan, parts[number], partial(rewriting.without, gone=keys))
        progress.end()
        plan, parts = _all_parts(place, progress, 0)
    if plan.holdout and not any(part.facts["heldout"]["tokens"] for part in parts):
        end = partial(rewriting.hold_out_end, separator=plan.separator, holdout=plan.holdout)
        _change(place, plan, parts[rewriting.holds_out([part.facts for part in parts])], end)
        plan, parts = _all_parts(place, progress, 0)

    def join(folder: Path) -> Facts:
        """Join the held-out text of the parts, and add up their counts of tokens."""
        with tempfile.TemporaryDirectory(prefix="bertc-") as name:
            aside, files = Path(name), [f"heldout.{file}" for file in TOKEN_FILES]
            counted = [_copied(place, part, ["train.counts"], aside) for part in parts]
            counts = [np.fromfile(copy / "train.counts", np.int64) for copy in counted]
            giving = (part for part in parts if part.facts["heldout"]["tokens"])
            copied = (_copied(place, part, files, aside) for part in giving)
            dtype = np.dtype(plan.dtype).type
            opened = (open_tokens(copy, "heldout", dtype) for copy in copied)
            facts = rewriting.join_held_out(folder, opened)
        (folder / "train.counts").write_bytes(np.sum(counts, axis=0).tobytes())
        return facts

    put_folder(place, HELD_OUT, join, anew=True)
    heldout = part_at(place, HELD_OUT)
    assert heldout is not None
    corpus = opening.write_corpus(place, plan, parts, heldout)
    if place.folder:
        clear(place.folder)
    return corpus


def _all_parts(
    place: FolderAt, progress: Progress, checked_bytes: int = sys.maxsize
) -> tuple[PreparationPlan, list[PreparedPart]]:
    """The plan and all parts as they are now."""
    plan, parts, missing, damaged = survey(place, progress, checked_bytes)
    if absent := sorted([*missing, *damaged]):
        named = f"{several(len(missing), 'part')} missing, {len(damaged):,} damaged"
        raise DataError(
            f"{len(parts):,} of {several(len(plan.parts), 'part')} are whole at {place.address}: "
            f"{named}, the first is {absent[0]}",
            plan.remedy(place.address, absent),
        )
    return plan, parts


def survey(
    place: FolderAt, progress: Progress, checked_bytes: int = sys.maxsize
) -> tuple[PreparationPlan, list[PreparedPart], list[str], list[str]]:
    """The plan of a place, its parts that are whole; names of missing ones, of damaged ones."""
    plan = read_plan(place)
    if plan is None:
        message = f"nothing is prepared at {place.address}"
        raise UsageError(message, f"bertc prepare SPEC --to {place.address} begins it")
    parts, missing, damaged = list[PreparedPart](), list[str](), list[str]()
    progress.begin("reading the parts", len(plan.parts), "parts")
    # Threads of this kind are not waited for when Ctrl-C or an error comes.
    with ThreadPool(available_cores() if place.folder else STORE_READERS) as pool:
        most = checked_bytes if place.folder else 0
        look = partial(part_at, place, plan=plan, checked_bytes=most)
        for name, part in zip(plan.parts, pool.imap(look, plan.parts), strict=True):
            if part:
                parts.append(part)
            else:
                (damaged if MANIFEST_FILE in place.sizes(name) else missing).append(name)
            progress.advance(1)
    progress.end()
    if part_at(place, TOKENIZER, None, sys.maxsize) is None:
        (damaged if MANIFEST_FILE in place.sizes(TOKENIZER) else missing).append(TOKENIZER)
    return plan, parts, missing, damaged


def _change(
    place: FolderAt, plan: PreparationPlan, part: PreparedPart, change: rewriting.Rewriting
) -> None:
    """Put a part with some documents fewer or elsewhere in the place of the one before."""
    dtype = np.dtype(plan.dtype).type

    def fill(folder: Path) -> Facts:
        now = part_at(place, part.name, plan) or part  # changed meanwhile by another process
        facts = rewriting.rewrite(folder, opening.copy_part(place, now, folder), dtype, change)
        return {**facts, "rows": rows_of(plan, folder), "plan": plan.fingerprint}

    put_folder(place, part.name, fill, anew=True)


def _copied(place: FolderAt, part: PreparedPart, files: list[str], aside: Path) -> Path:
    """A folder on this machine with these files of a part."""
    if place.folder:
        return place.folder / part.name
    (aside / part.name).mkdir(exist_ok=True)
    for file in files:
        place.get(f"{part.name}/{file}", aside / part.name / file)
    return aside / part.name
