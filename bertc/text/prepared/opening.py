"""Prepared text for training: its shards, here or copied to the cache when they are first read."""

import hashlib
import os
import weakref
from functools import partial
from pathlib import Path

import numpy as np

from bertc.base.diagnostics import DataError, MissingInputError, listed, several
from bertc.base.storage.paths import working_folder
from bertc.base.storage.place import WRONG, FolderAt
from bertc.cost.units import bytes_text
from bertc.ir.data import Prepared, Share
from bertc.text.cache import store
from bertc.text.cache.copies import copied
from bertc.text.prepared.manifest import PreparedPart, PreparedText, bytes_of, part_at, read_corpus
from bertc.text.prepared.plan import LARGEST_FILE_BYTES, TOKENIZER, read_plan
from bertc.text.rows.rewriting import held_out_remark
from bertc.text.rows.tokens import Tokens, open_tokens
from bertc.text.shards import Shard, Tokenised


def open_prepared(
    text: Prepared, tokenizer: str, cache: Path, progress: store.Progress
) -> Tokenised:
    """The shards of prepared text; ``tokenizer`` is the digest of the run's."""
    place = FolderAt(text.path)
    corpus = read_corpus(place)
    refuse_other_tokenizer(text, corpus, tokenizer)
    dtype = np.dtype(corpus.plan.dtype).type

    def located(part: PreparedPart, progress: store.Progress) -> tuple[Path, int | None]:
        if place.folder:
            return place.folder / _there(place, part.name, part.sha256).name, None
        folder, expected_bytes = cache / "shards" / part.sha256, bytes_of(part, corpus.plan.dtype)
        copy = partial(copy_part, place, part)
        return folder, copied(folder, copy, progress, expected_bytes, text.cache)

    def opened(part: PreparedPart, split: str) -> Tokens:
        folder, lock = located(part, store.Silent())
        tokens = open_tokens(folder, split, dtype)
        if lock is not None:  # it may go when nobody has its tokens
            weakref.finalize(tokens.ids, os.close, lock)
        return tokens

    if remark := held_out_remark(corpus.facts, corpus.plan.holdout):
        progress.note(f"{text.path}: {remark}")
    slow = place.folder is None
    largest = max((bytes_of(part, corpus.plan.dtype) for part in corpus.parts), default=0)
    if slow and 0 < text.cache < largest:
        less = f"cache={bytes_text(text.cache)} is less than a part of {bytes_text(largest)}"
        progress.note(f"{text.path}: {less}; the parts of two windows stay all the same")
    train = tuple(
        Shard(p.sha256, "train", partial(opened, p, "train"), p.facts["rows"], slow, p.name)
        for p in corpus.parts
        if p.facts["train"]["tokens"]
    )
    heldout = Shard(corpus.heldout.sha256, "heldout", partial(opened, corpus.heldout, "heldout"))
    folder, lock = located(corpus.heldout, progress)
    counts = np.fromfile(folder / "train.counts", np.int64)
    if lock is not None:
        os.close(lock)
    return Tokenised(corpus.facts, train, (heldout,), counts)


def refuse_other_tokenizer(text: Prepared, corpus: PreparedText, tokenizer: str) -> None:
    """Refuse text that is prepared with another tokenizer than that of this digest."""
    if corpus.plan.tokenizer != tokenizer:
        raise DataError(
            f"the text at {text.path} is prepared with another tokenizer than the run's",
            "a run without vocab has that of its first prepared text: leave vocab out, or prepare "
            'this one of a mixture again with vocab="FIRST/tokenizer"; with an init of others, '
            f'vocab="{text.path}/tokenizer" init=run(..., embeddings=mean)',
        )


def refuse_missing_parts(place: FolderAt, corpus: PreparedText) -> None:
    """Refuse text some of whose parts are gone, by the names in its place."""
    there = place.names()
    if gone := [part.name for part in (*corpus.parts, corpus.heldout) if part.name not in there]:
        raise MissingInputError(
            f"{place.address} lacks {several(len(gone), 'part')}: {listed(gone)}",
            corpus.plan.remedy(place.address, gone),
        )


def anchor_at(shares: tuple[Share, ...]) -> tuple[Share, ...]:
    """Shares whose prepared text is named from the root where it is on this machine."""

    def named(share: Share) -> Share:
        if not isinstance(share.corpus, Prepared) or not (at := FolderAt(share.corpus.path).folder):
            return share
        path = {"path": os.path.normpath(working_folder() / at)}
        return share.model_copy(update={"corpus": share.corpus.model_copy(update=path)})

    return tuple(map(named, shares))


def tokenizer_at(address: str, cache: Path) -> Path:
    """The folder of the tokenizer that text is prepared with, copied here from a store."""
    place = FolderAt(address)
    corpus = read_corpus(place)
    if place.folder:
        return place.folder / _there(place, TOKENIZER).name
    folder = cache / "tokenizers" / store.fingerprint(address, corpus.plan.fingerprint)
    store.obtain(
        folder, lambda folder: copy_part(place, _there(place, TOKENIZER), folder), store.Silent()
    )
    return folder


def _there(place: FolderAt, name: str, sha256: str = "") -> PreparedPart:
    """A part that is whole, of that digest if it is known."""
    there = part_at(place, name)
    if there is None or sha256 not in ("", there.sha256):
        raise DataError(
            f"{place.address}/{name} is damaged, gone or of another text",
            f"bertc prepare with its spec and --to {place.address} makes it again",
        )
    return there


def copy_part(place: FolderAt, part: PreparedPart, folder: Path) -> store.Facts:
    """Copy the files of a part but its manifest, all of one state; return its facts."""
    raw = place.read(
        f"{part.name}/{store.MANIFEST_FILE}",
        LARGEST_FILE_BYTES,
        lambda raw: hashlib.sha256(raw).hexdigest() == part.sha256,
    )
    manifest = store.unseal(raw.decode()) if raw else None
    if manifest is None:
        raise DataError(
            f"{place.address}/{part.name} is gone or was made anew",
            f"bertc prepare --to {place.address} --finish writes its manifest again",
        )
    for name, (_, digest) in manifest["files"].items():
        try:
            place.get(f"{part.name}/{name}", folder / name, digest)
        except MissingInputError as error:
            if WRONG in error.message and (plan := read_plan(place)):
                error.help = plan.remedy(place.address, [part.name])
            raise
    return dict(manifest["facts"])
