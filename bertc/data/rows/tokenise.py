"""Tokenisation of a source: split, encode on all cores, write training and held-out parts."""

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertc.base.diagnostics import DataError
from bertc.base.storage.foreign import as_data_error
from bertc.data.cache.progress import Progress
from bertc.data.cache.workers import processes, spread
from bertc.data.rows.holdout import ensure_both_parts
from bertc.data.rows.tokens import SPLITS, TokenWriter, open_tokens, token_dtype
from bertc.data.sources.sentences import split_sentences
from bertc.data.sources.source import TextSource
from bertc.data.vocab.vocabulary import FAILS, Vocabulary, splits
from bertc.ir.data import Sentences

BATCH_CHARACTERS = 1 << 19
TEXT_BYTES_PER_PROCESS = 4 << 20
"""Text for which a worker process takes longer than to start."""


RawPiece = tuple[str, bool]
"""A piece of a document, and whether text of the document precedes."""
Encoded = tuple[NDArray[np.uint32], NDArray[np.int64], list[int]]
"""All token ids, the length of each sentence, the number of sentences of each piece."""


@dataclass
class _Batch:
    """Pieces being encoded: (starts a document, part) of each, and the amount read for them."""

    runs: list[tuple[bool, str]] = field(default_factory=list)
    amount: int = 0


def tokenise(
    folder: Path, source: TextSource, vocabulary: Vocabulary, holdout: float, progress: Progress
) -> dict[str, Any]:
    """Write the training and held-out parts of a source into ``folder`` in bounded memory.

    A document is held out if its hash is in the lowest ``holdout`` of the range, so equal documents
    are in the same part. With ``holdout=0`` all is in the training part.
    """
    dtype, digest = token_dtype(vocabulary.size), hashlib.sha256()
    encode = Encode(vocabulary.tokenizer.to_str(), source.sentences)
    number = processes(source.text_bytes, TEXT_BYTES_PER_PROCESS)
    progress.begin(f"tokenising {source.name}", source.total, source.unit)
    writers = {part: TokenWriter(folder, part, dtype, vocabulary.sep) for part in SPLITS}
    try:
        with closing(spread(encode, _batches(source, holdout, digest), number)) as finished:
            for batch, encoded in finished:
                _write(writers, batch, encoded)
                progress.advance(batch.amount)
        for writer in writers.values():
            writer.close()
    finally:
        for writer in writers.values():
            writer.abandon()
    parts = 2 if holdout else 1
    if sum(writer.sentences for writer in writers.values()) < parts * (2 if source.paired else 1):
        least = "fewer than two" if holdout else "no"
        raise DataError(
            f"{source.name} holds {least} {'pairs' if source.paired else 'sentences'}",
            "one is needed to train on and one to evaluate on; they end with . ! or ?, "
            "with sentences=lines wherever a line does",
        )
    if holdout:
        ensure_both_parts(folder, dtype, vocabulary.sep, holdout, source.paired)
    progress.end()
    facts: dict[str, Any] = {"name": source.name, "content": digest.hexdigest()}
    for part in SPLITS:
        tokens = open_tokens(folder, part, dtype)
        sentences, documents = len(tokens.sentences) - 1, len(tokens.documents) - 1
        facts[part] = {"tokens": tokens.count, "sentences": sentences, "documents": documents}
    ids = open_tokens(folder, "train", dtype).ids
    counts = np.zeros(vocabulary.size, dtype=np.int64)
    for start in range(0, len(ids), BATCH_CHARACTERS):
        counts += np.bincount(ids[start : start + BATCH_CHARACTERS], minlength=vocabulary.size)
    counts[vocabulary.special] = 0
    (folder / "train.counts").write_bytes(counts.tobytes())
    return facts


def _write(writers: dict[str, TokenWriter], batch: _Batch, encoded: Encoded) -> None:
    ids, lengths, counts = encoded
    ends = np.concatenate(([0], np.cumsum(lengths)))
    sentence = 0
    for (first, part), count in zip(batch.runs, counts, strict=True):
        if first:
            writers[part].begin()
        sentence_lengths = lengths[sentence : sentence + count]
        writers[part].add(
            ids[ends[sentence] : ends[sentence + count]], sentence_lengths[sentence_lengths > 0]
        )
        sentence += count


@dataclass(frozen=True)
class Encode:
    """Encoder of pieces into token ids."""

    spelling: str
    sentences: Sentences

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which reads what spells a special token as text."""
        tokenizer = Tokenizer.from_str(self.spelling)
        tokenizer.encode_special_tokens = True
        return tokenizer

    @cached_property
    def _spaced(self) -> bool:
        return self.sentences != "whole" and continues_with_space(self.tokenizer)

    def __call__(self, pieces: list[RawPiece]) -> Encoded:
        """Token ids of some pieces; sentences after others may have a space before."""
        split_pieces = [split_sentences(text, self.sentences) for text, _ in pieces]
        sentences = [
            f" {sentence}" if self._spaced and (inside or place) else sentence
            for (_, inside), of_piece in zip(pieces, split_pieces, strict=True)
            for place, sentence in enumerate(of_piece)
        ]
        with as_data_error(*FAILS):
            encodings = self.tokenizer.encode_batch_fast(sentences, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        flat = np.fromiter(itertools.chain.from_iterable(ids), np.uint32, int(lengths.sum()))
        return flat, lengths, [len(of_piece) for of_piece in split_pieces]


def _batches(
    source: TextSource, holdout: float, digest: Any
) -> Iterator[tuple[_Batch, list[RawPiece]]]:
    batch, pieces, characters = _Batch(), list[RawPiece](), 0
    part, inside = "train", False
    for text, first, amount, kin in source.read():
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"\0" * first + raw)
        if first:
            part, inside = part_of_document(kin.encode() or raw, holdout), False
        batch.runs.append((first, part))
        batch.amount += amount
        pieces.append((text, inside))
        inside = inside or not (not text or text.isspace())
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield batch, pieces
            batch, pieces, characters = _Batch(), [], 0
    yield batch, pieces


def part_of_document(text: bytes, holdout: float) -> str:
    """The part of a document, by the hash of the first piece of its text."""
    digest = hashlib.blake2b(text, digest_size=8, person=b"holdout").digest()
    return "heldout" if int.from_bytes(digest, "little") < holdout * 2**64 else "train"


def continues_with_space(tokenizer: Tokenizer) -> bool:
    """True if the space before a sentence is part of its tokens, as in byte-level ones."""
    byte_level = [step for step in splits(tokenizer) if step.get("type") == "ByteLevel"]
    return any(not step.get("add_prefix_space") for step in byte_level)
