"""Tokenisation of a source: split, encode on all cores, write training and held-out parts."""

import hashlib
from array import array
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertc.base.diagnostics import as_data_error
from bertc.ir.cleaning import EVERY, Documents
from bertc.ir.data import Sentences
from bertc.text.cache.store import Progress, fingerprint
from bertc.text.cache.workers import processes, spread
from bertc.text.rows import rewriting
from bertc.text.rows.cleaning import CleanWriter, Measure, Traits, removal_text
from bertc.text.rows.tokens import token_dtype
from bertc.text.sources.source import TextSource, split_sentences
from bertc.text.vocab.vocabulary import FAILS, Vocabulary, splits

BATCH_CHARACTERS = 1 << 19
TEXT_BYTES_PER_PROCESS = 4 << 20
"""Text for which a worker process takes longer than to start."""

RawPiece = tuple[str, bool]
"""A piece of a document, and whether text of the document precedes."""
Run = tuple[bool, str, Traits]
"""A piece being encoded: whether it starts a document, and its part and traits."""
Encoded = tuple[NDArray[np.uint32], NDArray[np.int64], list[int]]
"""All token ids, the length of each sentence, the number of sentences of each piece."""


def tokenise(
    folder: Path,
    source: TextSource,
    vocabulary: Vocabulary,
    holdout: float,
    progress: Progress,
    least: bool = True,
    cores: int = 0,
    rules: Documents = EVERY,
) -> dict[str, Any]:
    """Write the training and held-out parts of a source into ``folder`` in bounded memory.

    A document is held out if its hash is in the lowest ``holdout`` of the range, so equal documents
    are in the same part. With ``holdout=0`` all is in the training part. ``least``: text that
    cannot be in both parts is refused. ``cores``: the most processes, 0 for all cores. ``rules``
    remove documents.
    """
    dtype, digest = token_dtype(vocabulary.size), hashlib.sha256()
    progress.begin(f"tokenising {source.name}", source.total, source.unit)
    writer, measure = CleanWriter(folder, dtype, vocabulary.sep, rules), Measure(rules)
    encode = Encode(vocabulary.tokenizer.to_str(), source.sentences)
    number = processes(source.text_bytes, TEXT_BYTES_PER_PROCESS, cores)
    try:
        batches = spread(encode, _batches(source, holdout, digest, measure), number)
        with closing(batches) as finished:
            for (runs, amount), encoded in finished:
                _write(writer, runs, encoded)
                progress.advance(amount)
        writer.close()
    finally:
        writer.abandon()
    needed = (2 if holdout else 1) * (2 if source.paired else 1)
    held = sum(counts["sentences"] for counts in rewriting.split_facts(folder, dtype).values())
    if least and held < needed:
        count = "fewer than two" if holdout else "no"
        noun = "pairs" if source.paired else "sentences"
        after = f" where {removal_text(writer.removed)}" if writer.removed else ""
        raise rewriting.too_little(source.name, f"{count} {noun}{after}")
    if holdout and least:
        rewriting.hold_out_end(folder, dtype, vocabulary.sep, holdout, source.paired)
    progress.end()
    rewriting.write_counts(folder, dtype, vocabulary.size, vocabulary.special)
    facts: dict[str, Any] = {"name": source.name, "content": digest.hexdigest()}
    if rules != EVERY:
        facts["content"] = fingerprint(facts["content"], rules.model_dump())
        facts["removed"] = dict(sorted(writer.removed.items()))
    counts = rewriting.split_facts(folder, dtype)
    tokens = sum(of_split["tokens"] for of_split in counts.values())
    return {**facts, rewriting.PER_TOKEN: writer.words / max(1, tokens), **counts}


def _write(writer: CleanWriter, runs: list[Run], encoded: Encoded) -> None:
    ids, lengths, counts = encoded
    ends = np.concatenate(([0], np.cumsum(lengths)))
    sentence = 0
    for (first, part, traits), count in zip(runs, counts, strict=True):
        if first:
            writer.begin(part)
        sizes = lengths[sentence : sentence + count]
        writer.add(ids[ends[sentence] : ends[sentence + count]], sizes[sizes > 0], traits)
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
        """True if the space before a sentence is part of its tokens, as in byte-level ones."""
        byte_level = [step for step in splits(self.tokenizer) if step.get("type") == "ByteLevel"]
        spaced = any(not step.get("add_prefix_space") for step in byte_level)
        return spaced and self.sentences != "whole"

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
        flat = array("I")
        for of_sentence in ids:
            flat.fromlist(of_sentence)
        return np.frombuffer(flat, np.uint32), lengths, [len(of_piece) for of_piece in split_pieces]


def _batches(
    source: TextSource, holdout: float, digest: Any, measure: Measure
) -> Iterator[tuple[tuple[list[Run], int], list[RawPiece]]]:
    """The runs of a batch of pieces and the amount read for them, and the pieces."""
    runs, pieces, amount, characters = list[Run](), list[RawPiece](), 0, 0
    part, inside = "train", False
    for text, first, read, kin in source.read():
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"\0" * first + raw)
        if first:
            part, inside = rewriting.part_of_document(kin.encode() or raw, holdout), False
        runs.append((first, part, measure.add(text, first)))
        amount += read
        pieces.append((text, inside))
        inside = inside or not (not text or text.isspace())
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield (runs, amount), pieces
            runs, pieces, amount, characters = [], [], 0, 0
    yield (runs, amount), pieces
