"""Prepared text for training: its shards, here or copied to the cache when they are first read."""

import contextlib
import hashlib
import os
import time
from functools import partial
from pathlib import Path

import numpy as np

from bertc.base.diagnostics import DataError
from bertc.base.storage import durable
from bertc.base.storage.place import FolderAt
from bertc.data.cache.store import (
    MANIFEST_FILE,
    Facts,
    Progress,
    Silent,
    fingerprint,
    obtain,
    unsealed,
)
from bertc.data.prepared.manifest import (
    LARGEST_FILE_BYTES,
    TOKENIZER,
    PreparedPart,
    part_at,
    read_corpus,
)
from bertc.data.rows.tokens import Tokens, open_tokens
from bertc.data.shards import Shard, Tokenised
from bertc.ir.data import Prepared

RECENT_SECONDS = 60
"""Age from which a shard may be removed from the cache."""


def open_prepared(text: Prepared, tokenizer: str, cache: Path, progress: Progress) -> Tokenised:
    """The shards of prepared text; ``tokenizer`` is the digest of the run's."""
    place = FolderAt(text.path)
    corpus = read_corpus(place)
    if corpus.plan.tokenizer != tokenizer:
        raise DataError(
            f"the text at {text.path} is prepared with another tokenizer than the run's",
            "leave vocab out of the spec: the run then uses that of the text",
        )

    def opened(part: PreparedPart, split: str) -> Tokens:
        folder = _folder(place, part, cache, Silent(), text.cache)
        return open_tokens(folder, split, np.dtype(corpus.plan.dtype).type)

    slow = place.folder is None
    train = tuple(
        Shard(part.sha256, "train", partial(opened, part, "train"), part.facts["rows"], slow)
        for part in corpus.parts
        if part.facts["train"]["tokens"]
    )
    of_all = _folder(place, corpus.heldout, cache, progress)
    heldout = Shard(corpus.heldout.sha256, "heldout", partial(opened, corpus.heldout, "heldout"))
    counts = np.fromfile(of_all / "train.counts", np.int64)
    return Tokenised(corpus.facts, train, (heldout,), counts)


def tokenizer_at(address: str, cache: Path) -> Path:
    """The folder of the tokenizer that text is prepared with, copied here from a store."""
    place = FolderAt(address)
    corpus = read_corpus(place)
    if place.folder:
        if part_at(place, TOKENIZER) is None:
            raise _damaged(place, TOKENIZER)
        return place.folder / TOKENIZER

    def copy(folder: Path) -> Facts:
        for file in {*place.sizes(TOKENIZER)} - {MANIFEST_FILE}:
            place.get(f"{TOKENIZER}/{file}", folder / file)
        return {}

    folder = cache / "tokenizers" / fingerprint(address, corpus.plan.fingerprint)
    obtain(folder, copy, Silent())
    return folder


def _damaged(place: FolderAt, name: str) -> DataError:
    return DataError(
        f"{place.address}/{name} is damaged, gone or of another text",
        f"bertc prepare with its spec and --to {place.address} makes it again",
    )


def _folder(
    place: FolderAt, part: PreparedPart, cache: Path, progress: Progress, most_bytes: int = 0
) -> Path:
    """The folder of a part on this machine, copied and checked if it is in a store."""
    if place.folder:
        there = part_at(place, part.name)
        if there is None or there.sha256 != part.sha256:
            raise _damaged(place, part.name)
        return place.folder / part.name
    folder = cache / "shards" / part.sha256
    obtain(folder, lambda folder: _copy(place, part, folder), progress)
    os.utime(folder / MANIFEST_FILE)
    if most_bytes:
        _make_room(folder.parent, most_bytes)
    return folder


def _make_room(shards: Path, most_bytes: int) -> None:
    """Remove the shards read longest ago, and rows of shards, until ``most_bytes`` are left.

    Whoever reads a removed one has it open; those of the last minute may be about to be opened.
    """
    read = {}
    for folder in shards.iterdir():
        with contextlib.suppress(OSError):  # removed or made by another process meanwhile
            read[folder] = (folder / MANIFEST_FILE).stat().st_mtime
    total = 0
    for folder in sorted(read, key=lambda folder: read[folder], reverse=True):
        with contextlib.suppress(OSError):
            total += sum(path.stat().st_size for path in folder.iterdir())
            if total > most_bytes and read[folder] < time.time() - RECENT_SECONDS:
                durable.remove(folder)


def _copy(place: FolderAt, part: PreparedPart, folder: Path) -> Facts:
    raw = place.read(
        f"{part.name}/{MANIFEST_FILE}",
        LARGEST_FILE_BYTES,
        lambda raw: hashlib.sha256(raw).hexdigest() == part.sha256,
    )
    manifest = unsealed(raw.decode()) if raw else None
    if manifest is None:
        raise DataError(
            f"{place.address}/{part.name} is gone or was made anew",
            f"bertc prepare --to {place.address} --finish writes its manifest again",
        )
    for name, (_, digest) in manifest["files"].items():
        place.get(f"{part.name}/{name}", folder / name, digest)
    return dict(manifest["facts"])
