"""Tokenised text in the cache: sources split, encoded on all cores, and written part by part."""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertc.base.diagnostics import as_data_error
from bertc.ir.cleaning import EVERY, Documents
from bertc.ir.data import Sentences
from bertc.ir.program import Run
from bertc.text.cache.store import MANIFEST_FILE, Facts, Progress, Silent, fingerprint, obtain
from bertc.text.cache.workers import processes, spread
from bertc.text.rows import rewriting
from bertc.text.rows.cleaning import CleanWriter, Measure, Traits, copies, keys_in, removal_text
from bertc.text.rows.tokens import SPLITS, DType, Tokens, open_tokens, token_dtype
from bertc.text.sources.source import CorpusText, TextSource, split_sentences
from bertc.text.vocab.vocabulary import FAILS, Vocabulary, splits

BATCH_CHARACTERS = 1 << 19
TEXT_BYTES_PER_PROCESS = 4 << 20
"""Text for which a worker process takes longer than to start."""
RawPiece = tuple[str, bool]
"""A piece of a document, and whether text of the document precedes."""
_Run = tuple[bool, str, Traits]
"""A piece being encoded: whether it starts a document, and its part and traits."""
Encoded = tuple[NDArray[np.uint32], NDArray[np.int64], list[int]]
"""All token ids, the length of each sentence, the number of sentences of each piece."""
VERSION = 2
"""Version of the preparation, in every fingerprint: raised when its results change."""
TokenFolder = tuple[Path, Facts]
"""A folder of tokens in the cache, and its facts."""


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
    encode = Encode(vocabulary.tokenizer.to_str(), source.sentences, source.ids)
    if source.ids:
        source = replace(source, read=partial(source.read, below=vocabulary.size))
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
    total = sum(counts["sentences"] for counts in rewriting.split_facts(folder, dtype).values())
    if least and total < (2 if holdout else 1) * (2 if source.paired else 1):
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


def _write(writer: CleanWriter, runs: list[_Run], encoded: Encoded) -> None:
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
    """Encoder of pieces into token ids, or reader of ``ids`` that they spell."""

    spelling: str
    sentences: Sentences
    ids: bool = False

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
        if self.ids:
            rows = [np.array(text.split(), np.uint32) for text, _ in pieces]
            return np.concatenate(rows), np.array([*map(len, rows)]), [1] * len(rows)
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
        return np.frombuffer(flat, np.uint32), lengths, list(map(len, split_pieces))


def _batches(
    source: TextSource, holdout: float, digest: Any, measure: Measure
) -> Iterator[tuple[tuple[list[_Run], int], list[RawPiece]]]:
    """The runs of a batch of pieces and the amount read for them, and the pieces."""
    runs, pieces, amount, characters = list[_Run](), list[RawPiece](), 0, 0
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
            Shard(folder.name, split, partial(open_tokens, folder, split, dtype))
            for folder, facts in read
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


def _change(text: TokenFolder, how: str, change: rewriting.Rewriting, dtype: DType) -> TokenFolder:
    """A part of a source with its documents changed, in a folder of its own."""
    before, facts = text
    folder, manifest = before.parent / fingerprint(before.name, how), ignore_patterns(MANIFEST_FILE)

    def fill(folder: Path) -> Facts:
        copytree(before, folder, ignore=manifest, dirs_exist_ok=True)
        return rewriting.rewrite(folder, facts, dtype, change)

    return folder, obtain(folder, fill, Silent())
