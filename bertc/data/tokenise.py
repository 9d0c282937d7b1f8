"""A source to token ids, once: split, encode on all cores, write, part training from held-out."""

import hashlib
import itertools
import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertc.data.holdout import ensure_both_parts
from bertc.data.progress import Progress
from bertc.data.sentences import split
from bertc.data.source import Source
from bertc.data.tokens import PARTS, TokenWriter, open_tokens, token_dtype
from bertc.data.vocabulary import Vocabulary
from bertc.diagnostics import DataError

BATCH_CHARACTERS = 1 << 20
IN_FLIGHT = 2
"""Batches being encoded while the main thread reads and writes; the library uses all cores."""


@dataclass
class _Batch:
    """Sentences to encode, and the runs of them: (starts a document, part, sentences)."""

    sentences: list[str] = field(default_factory=list)
    runs: list[tuple[bool, str, int]] = field(default_factory=list)
    characters: int = 0
    amount: int = 0


def tokenise(
    folder: Path, source: Source, vocabulary: Vocabulary, holdout: float, progress: Progress
) -> dict[str, Any]:
    """Write both parts of a source into ``folder``; memory does not grow with the source.

    A document is held out if the hash of its text falls into the lowest ``holdout`` of all.
    Equal documents therefore stand in the same part.

    Raises:
        DataError: the source holds fewer than two sentences.
    """
    dtype = token_dtype(vocabulary.size)
    digest = hashlib.sha256()
    writers = {part: TokenWriter(folder, part, dtype, vocabulary.sep) for part in PARTS}
    progress.begin(f"tokenising {source.name}", source.total, source.unit)
    try:
        for batch, ids, lengths in _encoded(source, vocabulary.tokenizer, holdout, digest):
            _write(writers, batch, ids, lengths)
            progress.advance(batch.amount)
        for writer in writers.values():
            writer.close()
    finally:
        for writer in writers.values():
            writer.abandon()
    progress.end()
    if sum(writer.sentences for writer in writers.values()) < 2:
        raise DataError(
            f"{source.name} holds fewer than two sentences",
            "one is needed to train on and one to evaluate on",
        )
    ensure_both_parts(folder, dtype, vocabulary.sep, holdout)
    return _facts(folder, source, vocabulary, digest.hexdigest())


def _facts(folder: Path, source: Source, vocabulary: Vocabulary, content: str) -> dict[str, Any]:
    """Counts of the finished parts; the training tokens' frequencies go to a file of their own."""
    dtype = token_dtype(vocabulary.size)
    facts: dict[str, Any] = {"name": source.name, "content": content}
    for part in PARTS:
        tokens = open_tokens(folder, part, dtype)
        facts[part] = {
            "tokens": tokens.count,
            "sentences": len(tokens.sentences) - 1,
            "documents": len(tokens.documents) - 1,
        }
    train = open_tokens(folder, "train", dtype)
    counts = np.zeros(vocabulary.size, dtype=np.int64)
    for start in range(0, len(train.ids), BATCH_CHARACTERS):
        chunk = train.ids[start : start + BATCH_CHARACTERS]
        counts += np.bincount(chunk, minlength=vocabulary.size)
    counts[vocabulary.special] = 0
    (folder / "train.counts").write_bytes(counts.tobytes())
    return facts


def _write(
    writers: dict[str, TokenWriter],
    batch: _Batch,
    ids: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    ends = np.concatenate(([0], np.cumsum(lengths)))
    at = 0
    for first, part, count in batch.runs:
        if first:
            writers[part].begin()
        own = lengths[at : at + count]
        writers[part].add(ids[ends[at] : ends[at + count]], own[own > 0])
        at += count


def _encoded(
    source: Source, tokenizer: Tokenizer, holdout: float, digest: Any
) -> Iterator[tuple[_Batch, NDArray[np.int64], NDArray[np.int64]]]:
    """Batches with their ids in a row and the length of each sentence, in order."""
    encoder = Tokenizer.from_str(tokenizer.to_str())
    encoder.encode_special_tokens = True  # text that spells a special token is text
    spaced = continues_with_space(tokenizer)
    waiting: deque[tuple[_Batch, Future[Any]]] = deque()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        for batch in _batches(source, spaced, holdout, digest):
            waiting.append((batch, pool.submit(_encode, encoder, batch.sentences)))
            if len(waiting) > IN_FLIGHT:
                done, future = waiting.popleft()
                yield done, *future.result()
        for done, future in waiting:
            yield done, *future.result()


def _encode(
    encoder: Tokenizer, sentences: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ids = [e.ids for e in encoder.encode_batch_fast(sentences, add_special_tokens=False)]
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    flat = np.fromiter(itertools.chain.from_iterable(ids), np.int64, count=int(lengths.sum()))
    return flat, lengths


def _batches(source: Source, spaced: bool, holdout: float, digest: Any) -> Iterator[_Batch]:
    batch, part, inside = _Batch(), "train", False
    for text, first, amount in source.read():
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"\0" * first + raw)
        if first:
            part, inside = part_of(raw, holdout), False
        sentences = split(text, source.sentences)
        if spaced:
            batch.sentences += [
                s if not (inside or i) else f" {s}" for i, s in enumerate(sentences)
            ]
        else:
            batch.sentences += sentences
        inside = inside or bool(sentences)
        batch.runs.append((first, part, len(sentences)))
        batch.characters += len(text)
        batch.amount += amount
        if batch.characters >= BATCH_CHARACTERS:
            yield batch
            batch = _Batch()
    yield batch


def part_of(text: bytes, holdout: float) -> str:
    """Which part a document belongs to, by the hash of its (first piece of) text."""
    digest = hashlib.blake2b(text, digest_size=8, person=b"holdout").digest()
    return "heldout" if int.from_bytes(digest, "little") < holdout * 2**64 else "train"


def continues_with_space(tokenizer: Tokenizer) -> bool:
    """Whether a sentence that follows another is to be encoded with the space between them.

    Byte-level vocabularies hold the space in the word after it; others add or ignore it.
    """
    node = json.loads(tokenizer.to_str())["pre_tokenizer"] or {}
    return any(
        step.get("type") == "ByteLevel" and not step.get("add_prefix_space")
        for step in node.get("pretokenizers", [node])
    )
