"""Tokenised text, part by part, in the cache."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.cache.store import Facts, Progress, fingerprint, obtain
from bertc.data.rows.holdout import join_held_out
from bertc.data.rows.tokenise import tokenise
from bertc.data.rows.tokens import SPLITS, Tokens, open_tokens, token_dtype
from bertc.data.sources.source import TextSource
from bertc.data.vocab.vocabulary import Vocabulary

VERSION = 2
"""Version of the preparation, in every fingerprint: raised when its results change."""


@dataclass(frozen=True, eq=False)
class Shard:
    """Documents of a source, tokenised: a part of the cache folder ``name``.

    ``counts`` are those of its rows where they are known before it is read, by ``how``; a ``slow``
    one comes from a store.
    """

    name: str
    part: str
    opened: Callable[[], Tokens]
    counts: Mapping[str, Facts] = field(default_factory=dict)
    slow: bool = False


@dataclass(frozen=True, eq=False)
class Tokenised:
    """A tokenised source in the cache; ``counts`` (v,) are of its training tokens."""

    facts: dict[str, Any]
    train: tuple[Shard, ...]
    heldout: tuple[Shard, ...]
    counts: NDArray[np.int64]


def spelling(vocabulary: Vocabulary) -> str:
    """Digest of a tokenizer."""
    return fingerprint(vocabulary.tokenizer.to_str())


def tokenise_source(
    source: TextSource, vocabulary: Vocabulary, holdout: float, cache: Path, progress: Progress
) -> Tokenised:
    """Tokenise a source part by part, or open what the cache has of it."""
    dtype, parts = token_dtype(vocabulary.size), source.parts or (source,)

    def made(part: TextSource, least: bool) -> tuple[str, Facts]:
        name = fingerprint(VERSION, part.identity, spelling(vocabulary), holdout)
        if least and source.parts:
            name = fingerprint(name, "both parts")
        facts = obtain(
            cache / "tokens" / name,
            lambda folder: tokenise(folder, part, vocabulary, holdout, progress, least),
            progress,
            part.text_bytes * np.dtype(dtype).itemsize // 4,
        )
        return name, facts

    read = [made(part, not source.parts) for part in parts]
    if holdout and not any(facts["heldout"]["tokens"] for _, facts in read):
        read[-1] = made(parts[-1], least=True)
    train, heldout = (
        tuple(
            Shard(name, split, partial(open_tokens, cache / "tokens" / name, split, dtype))
            for name, facts in read
            if facts[split]["tokens"]
        )
        for split in SPLITS
    )
    if holdout and len(read) > 1:
        name = fingerprint("held out", *(name for name, _ in read))
        texts = (shard.opened() for shard in heldout)
        folder = cache / "tokens" / name
        obtain(folder, lambda folder: join_held_out(folder, texts), progress)
        heldout = (Shard(name, "heldout", partial(open_tokens, folder, "heldout", dtype)),)
    counts = [np.fromfile(cache / "tokens" / name / "train.counts", np.int64) for name, _ in read]
    facts = dict(read[0][1]) if len(read) == 1 else _together(source.name, [f for _, f in read])
    # Without held-out text it is text to evaluate on alone.
    return Tokenised(facts, train, heldout if holdout else train, np.sum(counts, axis=0))


def _together(name: str, parts: list[Facts]) -> dict[str, Any]:
    """Facts of a source from those of its parts."""
    facts: dict[str, Any] = {"name": name, "content": fingerprint(*(p["content"] for p in parts))}
    for split in SPLITS:
        counted = ("tokens", "sentences", "documents")
        facts[split] = {count: sum(part[split][count] for part in parts) for count in counted}
    return facts
