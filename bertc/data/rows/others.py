"""Documents of tokens that others made, as bertc's own: without special tokens around them."""

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.data.rows.cleaning import NO_TRAITS, Traits
from bertc.data.rows.holdout import part_of_document
from bertc.data.sources.tokens import TokenSource
from bertc.data.vocab.vocabulary import Vocabulary

IDS_BYTES_AT_ONCE = 1 << 20

Run = tuple[bool, str, Traits]
"""A piece being encoded: whether it starts a document, and its part and traits."""
Encoded = tuple[NDArray[np.uint32], NDArray[np.int64], list[int]]
"""All token ids, the length of each sentence, the number of sentences of each piece."""


def ids_of_others(
    source: TokenSource, vocabulary: Vocabulary, holdout: float, digest: Any
) -> Generator[tuple[tuple[list[Run], int], Encoded], None, None]:
    """The documents of tokens that others made, without the special tokens around them."""
    names = (vocabulary.cls, vocabulary.sep, vocabulary.pad, vocabulary.bos, vocabulary.eos)
    around = {token for token in names if token is not None}
    runs, documents, amount = list[Run](), list[NDArray[np.uint32]](), 0
    for document, size, file in source.documents():
        first, last = 0, len(document)
        while first < last and int(document[first]) in around:
            first += 1
        while first < last and int(document[last - 1]) in around:
            last -= 1
        if first < last and not 0 <= int(document.min()) <= int(document.max()) < vocabulary.size:
            raise DataError(
                f"{file}: a document has ids from {document.min()} to {document.max()}, but the "
                f"vocabulary has {vocabulary.size:,} tokens",
                "vocab names the tokenizer that made them",
            )
        documents.append(document[first:last].astype("<u4"))
        raw = documents[-1].tobytes()
        digest.update(len(raw).to_bytes(8, "little") + raw)
        runs.append((True, part_of_document(raw, holdout), NO_TRAITS))
        amount += size
        if amount >= IDS_BYTES_AT_ONCE:
            yield (runs, amount), _end_to_end(documents)
            runs, documents, amount = [], [], 0
    yield (runs, amount), _end_to_end(documents)


def _end_to_end(documents: list[NDArray[np.uint32]]) -> Encoded:
    lengths = np.array(list(map(len, documents)), dtype=np.int64)
    ids = np.concatenate(documents) if documents else np.empty(0, np.uint32)
    return ids, lengths, [1] * len(documents)
