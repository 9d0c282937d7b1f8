"""Tokenised text, part by part, in the cache."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.ir.cleaning import EVERY
from bertc.ir.program.resolved import Run
from bertc.text.cache.store import MANIFEST_FILE, Facts, Progress, Silent, fingerprint, obtain
from bertc.text.rows import rewriting
from bertc.text.rows.cleaning import copies, keys_in, removal_text
from bertc.text.rows.tokenise import tokenise
from bertc.text.rows.tokens import SPLITS, DType, Tokens, open_tokens, token_dtype
from bertc.text.sources.source import CorpusText, TextSource
from bertc.text.vocab.vocabulary import Vocabulary

VERSION = 2
"""Version of the preparation, in every fingerprint: raised when its results change."""


@dataclass(frozen=True, eq=False)
class Shard:
    """Documents of a source, tokenised: a part of the cache folder ``name``.

    ``counts`` are those of its rows where they are known before it is read, by ``how``; a ``slow``
    one comes from a store. ``title`` names it for people, ``files`` those that it was made from.
    """

    name: str
    part: str
    opened: Callable[[], Tokens]
    counts: Mapping[str, Facts] = field(default_factory=dict)
    slow: bool = False
    title: str = ""
    files: str = ""


@dataclass(frozen=True, eq=False)
class Tokenised:
    """A tokenised source in the cache; ``counts`` (v,) are of its training tokens."""

    facts: dict[str, Any]
    train: tuple[Shard, ...]
    heldout: tuple[Shard, ...]
    counts: NDArray[np.int64]


TokenisedTexts = Mapping[CorpusText, Tokenised]


def spelling(vocabulary: Vocabulary) -> str:
    """Digest of a tokenizer."""
    return fingerprint(vocabulary.tokenizer.to_str())


def tokenise_source(
    source: TextSource, vocabulary: Vocabulary, run: Run, cache: Path, progress: Progress
) -> Tokenised:
    """Tokenise a source part by part, or open what the cache has of it."""
    dtype, parts = token_dtype(vocabulary.size), source.parts or (source,)
    holdout, rules = run.holdout, run.clean
    cleaned = () if rules == EVERY else (rules.model_dump(),)

    def made(part: TextSource) -> TokenFolder:
        name = fingerprint(VERSION, part.identity, spelling(vocabulary), holdout, *cleaned)
        folder = cache / "tokens" / name
        fill = partial(
            tokenise, source=part, vocabulary=vocabulary, holdout=holdout, progress=progress,
            least=not source.parts, rules=rules,
        )  # fmt: skip
        expected_bytes = part.text_bytes * np.dtype(dtype).itemsize // 4
        return folder, obtain(folder, fill, progress, expected_bytes)

    read = [made(part) for part in parts]
    if rules.unique and len(read) > 1:
        for number, keys in copies([keys_in(folder) for folder, _ in read]).items():
            drop = partial(rewriting.without, gone=keys)
            read[number] = _change(read[number], fingerprint(keys.tolist()), drop, dtype)
    if holdout and not any(facts["heldout"]["tokens"] for _, facts in read):
        last = rewriting.holds_out([facts for _, facts in read])
        end = partial(rewriting.hold_out_end, separator=vocabulary.sep, holdout=holdout)
        read[last] = _change(read[last], "both parts", end, dtype)
    train, heldout = (
        tuple(
            Shard(folder.name, split, partial(open_tokens, folder, split, dtype), files=part.files)
            for part, (folder, facts) in zip(parts, read, strict=True)
            if facts[split]["tokens"]
        )
        for split in SPLITS
    )
    if holdout and len(read) > 1:
        name = fingerprint("held out", *(folder.name for folder, _ in read))
        folder, texts = cache / "tokens" / name, (shard.opened() for shard in heldout)
        obtain(folder, lambda folder: rewriting.join_held_out(folder, texts), progress)
        heldout = (Shard(name, "heldout", partial(open_tokens, folder, "heldout", dtype)),)
    counts = [np.fromfile(folder / "train.counts", np.int64) for folder, _ in read]
    facts = dict(read[0][1])
    if len(read) > 1:
        content = fingerprint(*(facts["content"] for _, facts in read))
        facts = rewriting.together(source.name, content, [facts for _, facts in read])
    _note_remarks(source, facts, holdout, progress)
    # Without held-out text it is text to evaluate on alone.
    return Tokenised(facts, train, heldout if holdout else train, np.sum(counts, axis=0))


def _note_remarks(source: TextSource, facts: Facts, holdout: float, progress: Progress) -> None:
    """Say what was removed and held out of a source, and what is wrong with its text."""
    remarks = removal_text(facts.get("removed", {})), rewriting.held_out_remark(facts, holdout)
    for remark in filter(None, remarks):
        progress.note(f"{source.name}: {remark}")
    for error in source.remarks:
        progress.note(f"{error.message}; {error.help}")


TokenFolder = tuple[Path, Facts]
"""A folder of tokens in the cache, and its facts."""


def _change(
    tokens: TokenFolder, how: str, change: rewriting.Rewriting, dtype: DType
) -> TokenFolder:
    """A part of a source with its documents changed, in a folder of its own."""
    before, facts = tokens
    folder, manifest = before.parent / fingerprint(before.name, how), ignore_patterns(MANIFEST_FILE)

    def fill(folder: Path) -> Facts:
        copytree(before, folder, ignore=manifest, dirs_exist_ok=True)
        return rewriting.rewrite(folder, facts, dtype, change)

    return folder, obtain(folder, fill, Silent())
