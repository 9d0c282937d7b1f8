"""``bertc prepare``: text made tokens in a folder or a store, and how far that is."""

import sys
from pathlib import Path

from bertc.base.diagnostics import DataError, listed, several
from bertc.base.storage.place import FolderAt
from bertc.cost.units import bytes_text
from bertc.ir.program.resolved import Resolved
from bertc.machine.display import watching
from bertc.text.prepared.finishing import finish_preparing, survey
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.prepared.opening import part_at, read_corpus
from bertc.text.prepared.plan import CORPUS_FILE, HELD_OUT
from bertc.text.rows.cleaning import removal_text
from bertc.text.rows.rewriting import held_out_remark

GO_ON = "the same command goes on"


def prepare_text(
    resolved: Resolved,
    to: str,
    cache: Path,
    part: tuple[int, int] | None,
    workers: int,
    command: str,
    skip_damaged: bool = False,
) -> str:
    """Prepare the text of a spec, or one share of its parts; return a line about it."""
    place = FolderAt(to)
    with watching(GO_ON) as progress:
        try:
            work = begin_preparing(
                resolved, place, cache, progress, command, skip_damaged=skip_damaged
            )
            nth, shares = part or (1, 1)
            names = work.plan.parts[nth - 1 :: shares]
            make_parts(work, names, progress, workers)
        except DataError as error:
            if error.lines:  # of inputs
                error.help += "; --skip-damaged leaves out the rest of such files"
            raise
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
    remarks = removal_text(facts.get("removed", {})), held_out_remark(facts, corpus.plan.holdout)
    damaged = [error for part in corpus.parts for error in part.facts.get("damaged", ())]
    return (
        f"{to}: {facts['train']['tokens']:,} tokens of {facts['train']['documents']:,} documents "
        f"to train on, {facts['heldout']['tokens']:,} held out, in "
        f'{several(len(corpus.parts), "part")}; read with data=prepared("{to}")'
        + "".join(f"\n{remark}" for remark in remarks if remark)
        + "".join(f"\nthe rest is left out: {error}" for error in damaged)
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
