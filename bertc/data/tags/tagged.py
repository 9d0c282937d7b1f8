"""Tags of a text: made once into the cache, beside its tokens."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertc.data.cache.progress import Progress
from bertc.data.cache.store import fingerprint, obtain
from bertc.data.examples.word_networks import WordNetworks
from bertc.data.examples.word_spans import split_text
from bertc.data.rows.codes import CODE_TYPE, LABEL_BITS, TextTags
from bertc.data.rows.tokenise import Encode, Encoded, RawPiece, write_parts
from bertc.data.rows.tokens import SPLITS, Tokens, mapped
from bertc.data.sources.source import TextSource
from bertc.data.tags.span_file import SpanFile
from bertc.data.tags.spans import Codes, Span
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.diagnostics import DataError, MissingInputError, listed, several
from bertc.ir.program.taggers import refuse_unknown_labels
from bertc.ir.terms.masking import is_span_file
from bertc.passes.inputs import no_tagger

VERSION = 1
LABELS_NAMED = 5
"""Labels whose share of the text is named."""
TOKENS_AT_ONCE = 1 << 20


class Tagger(Protocol):
    """A source of spans, asked about all pieces of a text in order."""

    def identity(self) -> list[object]:
        """Values that change with its answers."""

    def labels(self) -> tuple[str, ...]:
        """The labels of its spans."""

    def begin(self) -> None:
        """Begin with the first document of a text."""

    def take(self, pieces: list[RawPiece], split_pieces: list[list[str]]) -> list[list[Span]]:
        """The spans of every sentence of some pieces, in characters of the sentence."""

    def end(self) -> None:
        """End after the last document."""


@dataclass(frozen=True)
class TrainedTagger:
    """A run that learned tags."""

    folder: str
    networks: WordNetworks

    def identity(self) -> list[object]:
        """The digest of its weights."""
        return [self.networks.digest(self.folder)]

    def labels(self) -> tuple[str, ...]:
        """The labels of its spans, or its tags."""
        return self.networks.labels(self.folder)

    def begin(self) -> None:
        """Nothing to do."""

    def take(self, pieces: list[RawPiece], split_pieces: list[list[str]]) -> list[list[Span]]:
        """The spans of every sentence."""
        texts = [split_text(sentence) for sentence in chain.from_iterable(split_pieces)]
        by_sentence = self.networks.spans(self.folder, texts)
        return [[Span(*span) for span in spans] for spans in by_sentence]

    def end(self) -> None:
        """Nothing to do."""


def tagger_of(source: str, networks: WordNetworks) -> Tagger:
    """The tagger that a spec names.

    Raises:
        MissingInputError: it is neither a folder nor a file of spans.
    """
    if wrong := no_tagger(source):
        raise MissingInputError(*wrong)
    return SpanFile(source) if is_span_file(source) else TrainedTagger(source, networks)


class _TagTokens:
    """Encoder of pieces into codes in place of token ids."""

    def __init__(self, encode: Encode, tagger: Tagger) -> None:
        self._encode, self._tagger = encode, tagger
        self.codes, self.digest = Codes(tagger.labels()), hashlib.sha256()
        tagger.begin()

    def __call__(self, pieces: list[RawPiece]) -> Encoded:
        """Codes of some pieces."""
        split_pieces = self._encode.split(pieces)
        spelled = self._encode.spelled(pieces, split_pieces)
        spans = self._tagger.take(pieces, split_pieces)
        encodings = self._encode.tokenizer.encode_batch(spelled, add_special_tokens=False)
        sentences = chain.from_iterable(split_pieces)
        shifts = [
            len(text) - len(sentence) for text, sentence in zip(spelled, sentences, strict=True)
        ]
        codes = self.codes.of([encoding.offsets for encoding in encodings], _moved(spans, shifts))
        self.digest.update(codes.astype(CODE_TYPE).tobytes())
        lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
        return codes, lengths, [len(of_piece) for of_piece in split_pieces]


def _moved(spans: Iterable[list[Span]], shifts: Sequence[int]) -> list[list[Span]]:
    """Spans behind the spaces that were put before their sentences."""
    return [
        [Span(begin + shift, end + shift, label) for begin, end, label in each] if shift else each
        for each, shift in zip(spans, shifts, strict=True)
    ]


def tag(
    source: TextSource,
    tokens: tuple[str, Tokens, Tokens],
    tagger_name: str,
    vocabulary: Vocabulary,
    holdout: float,
    cache: Path,
    networks: WordNetworks,
    progress: Progress,
) -> TextTags:
    """Tag a tokenised text, or open its tags from the cache.

    ``tokens`` are the name of the tokenised text and its parts.

    Raises:
        MissingInputError, DataError: as the taggers.
    """
    name, train, heldout = tokens
    tagger = tagger_of(tagger_name, networks)
    folder = cache / "tags" / fingerprint(VERSION, name, tagger.identity())

    def make(folder: Path) -> dict[str, Any]:
        encode = _TagTokens(Encode(vocabulary.tokenizer.to_str(), source.sentences), tagger)
        progress.begin(f"tagging {source.name} with {tagger_name}", source.total, source.unit)
        write_parts(folder, source, (CODE_TYPE, 0), holdout, (encode, 1), progress)
        tagger.end()
        progress.end()
        counts = encode.codes.counts()
        progress.note(f"{tagger_name} found in {source.name}: {_share(counts)}")
        return {"content": encode.digest.hexdigest(), "counts": counts}

    facts = obtain(folder, make, progress, train.ids.nbytes + heldout.ids.nbytes)
    codes = [mapped(folder / f"{part}.ids", CODE_TYPE) for part in SPLITS]
    assert list(map(len, codes)) == [len(train.ids), len(heldout.ids)], "a code for each token"
    return TextTags(tuple(label for label, *_ in facts["counts"][1:]), facts, *codes)


def _share(counts: list[tuple[str, int, int]]) -> str:
    """A tagged text in words: its spans, their share of its tokens, the commonest labels."""
    (_, _, outside), *labelled = counts
    spans, tokens = sum(each[1] for each in labelled), sum(each[2] for each in labelled)
    shares = sorted(((count, label) for label, _, count in labelled if count), reverse=True)
    total = max(1, tokens + outside)
    kinds = [f"{label} {count / total:.1%}" for count, label in shares[:LABELS_NAMED]]
    rest = [f"{len(shares) - LABELS_NAMED} more"] if len(shares) > LABELS_NAMED else []
    shown = f" ({', '.join([*kinds, *rest])})" if kinds else ""
    return f"{several(spans, 'span')} with {tokens / total:.1%} of its tokens{shown}"


def refuse_nothing_found(name: str, wanted: Sequence[str], tags: Sequence[TextTags]) -> None:
    """Refuse a tagger that found no span in all texts of a run.

    Raises:
        DataError: if it found none, or none of the ``wanted`` labels, or does not know one.
    """
    counts: Counter[str] = Counter()
    for each in tags:
        counts.update({label: spans for label, spans, _ in each.facts["counts"][1:]})
    there = [label for label, spans in counts.items() if spans]
    refuse_unknown_labels(name, wanted, [*counts], there)
    if not any(counts[label] for label in wanted or counts):
        sought = f"no span of {listed(wanted)}" if wanted and there else "no span"
        raise DataError(
            f"{name} found {sought} in the text of this run",
            help=f"labels=[{', '.join(map(json.dumps, there))}], which it found"
            if there
            else "name a tagger that learned this language and kind of text; whether it finds any "
            f"span, bertc eval {name} tells",
        )


def share_of(wanted: Sequence[str], tags: Sequence[TextTags]) -> str:
    """The share of all texts of a run that the labels to be masked have, in words."""
    every = [count for each in tags for count in each.facts["counts"]]
    spans = sum(number for label, number, _ in every if label in wanted)
    tokens = sum(number for label, _, number in every if label in wanted)
    share = tokens / max(1, sum(number for _, _, number in every))
    return f"{several(spans, 'span')} with {share:.1%} of its tokens are {' or '.join(wanted)}"


def counts_by_tag(tokens: Tokens, tags: TextTags, vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Counts of each token under each tag in the training part, (t, v); first those without."""
    number, size = len(tags.labels) + 1, vocabulary.size
    counts = np.zeros(number * size, dtype=np.int64)
    for start in range(0, len(tokens.ids), TOKENS_AT_ONCE):
        part = slice(start, start + TOKENS_AT_ONCE)
        labels = (tags.train[part] & LABEL_BITS).astype(np.int64)
        counts += np.bincount(labels * size + tokens.ids[part], minlength=number * size)
    counts_tv = counts.reshape(number, size)
    counts_tv[:, vocabulary.special] = 0
    return counts_tv
