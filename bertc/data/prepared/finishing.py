"""The end of a preparation: what follows from all parts together, and the manifest."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from bertc.base.diagnostics import DataError, several
from bertc.base.storage.place import FolderAt
from bertc.data.cache.store import Facts, Progress, clear
from bertc.data.prepared.making import put_folder, rows_of
from bertc.data.prepared.manifest import (
    HELD_OUT,
    PreparationPlan,
    PreparedPart,
    PreparedText,
    part_at,
    survey,
    write_corpus,
)
from bertc.data.rows.cleaning import copies, keys_in
from bertc.data.rows.holdout import join_held_out
from bertc.data.rows.rewriting import Rewriting, hold_out_end, holds_out, rewrite, without
from bertc.data.rows.tokens import SPLITS, TOKEN_FILES, Tokens, open_tokens


def finish_preparing(place: FolderAt, progress: Progress) -> PreparedText:
    """Write the manifest of a place whose parts are all there."""
    plan, parts, missing, damaged = survey(place, progress)
    if absent := sorted([*missing, *damaged]):
        named = f"{several(len(missing), 'part')} missing, {len(damaged):,} damaged"
        share = f" --part {int(absent[0]) + 1}/{len(plan.parts)}"
        raise DataError(
            f"{len(parts):,} of {several(len(plan.parts), 'part')} are whole at {place.address}: "
            f"{named}, the first is {absent[0]}",
            f"{plan.words('command')} --to {place.address}{share * (len(absent) == 1)} makes "
            + ("it" if len(absent) == 1 else "those alone"),
        )
    if plan.clean.get("unique"):
        progress.begin("comparing documents", len(parts), "parts")
        read = []
        for part in parts:
            with tempfile.TemporaryDirectory(prefix="bertc-") as name:
                hashes = [f"{split}.hashes" for split in SPLITS]
                read.append(keys_in(_copied(place, part, hashes, Path(name))))
            progress.advance(1)
        for number, keys in copies(read).items():
            drop = partial(without, gone=keys)
            parts[number] = _changed(place, plan, parts[number], drop)
        progress.end()
    if plan.holdout and not any(part.facts["heldout"]["tokens"] for part in parts):
        last = holds_out([part.facts for part in parts])
        end = partial(hold_out_end, separator=plan.separator, holdout=plan.holdout)
        parts[last] = _changed(place, plan, parts[last], end)
    put_folder(place, HELD_OUT, lambda folder: _held_out(folder, place, plan, parts))
    heldout = part_at(place, HELD_OUT)
    assert heldout is not None
    corpus = write_corpus(place, plan, parts, heldout)
    if place.folder:
        clear(place.folder)
    return corpus


def _changed(
    place: FolderAt, plan: PreparationPlan, part: PreparedPart, change: Rewriting
) -> PreparedPart:
    """A part with some documents fewer or elsewhere, in the place of the one before."""
    dtype = np.dtype(plan.dtype).type

    def fill(folder: Path) -> Facts:
        now = part_at(place, part.name, plan) or part  # changed meanwhile by another process
        facts = rewrite(folder, place, part.name, now.facts, dtype, change)
        return {**facts, "rows": rows_of(plan, folder)}

    put_folder(place, part.name, fill, anew=True)
    changed = part_at(place, part.name, plan)
    assert changed is not None
    return changed


def _held_out(
    folder: Path, place: FolderAt, plan: PreparationPlan, parts: list[PreparedPart]
) -> Facts:
    """Join the held-out text of the parts, and add up their counts of tokens."""
    dtype = np.dtype(plan.dtype).type
    with tempfile.TemporaryDirectory(prefix="bertc-") as name:
        aside = Path(name)
        counted = [_copied(place, part, ["train.counts"], aside) for part in parts]
        total = np.sum([np.fromfile(at / "train.counts", np.int64) for at in counted], axis=0)

        def opened(part: PreparedPart) -> Tokens:
            files = [f"heldout.{file}" for file in TOKEN_FILES]
            return open_tokens(_copied(place, part, files, aside), "heldout", dtype)

        facts = join_held_out(folder, (opened(p) for p in parts if p.facts["heldout"]["tokens"]))
    (folder / "train.counts").write_bytes(total.tobytes())
    return facts


def _copied(place: FolderAt, part: PreparedPart, files: list[str], aside: Path) -> Path:
    """A folder on this machine with these files of a part."""
    if place.folder:
        return place.folder / part.name
    (aside / part.name).mkdir(exist_ok=True)
    for file in files:
        place.get(f"{part.name}/{file}", aside / part.name / file)
    return aside / part.name
