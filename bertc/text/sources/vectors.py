"""Vectors of words in the text formats of GloVe and word2vec."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import user_path
from bertc.text.cache.store import Progress, Silent
from bertc.text.sources.cells import finite
from bertc.text.sources.streams import lines, opened_stream

FORMAT = "a line has a word and its numbers, as in `the 0.418 0.24968 -0.41242`"
WORDS_AT_ONCE = 256
"""Words whose neighbours are found by one product."""


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words of a file, each once, and their vectors."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]  # (words, width)


def read_vectors(
    name: str, progress: Progress, wanted: Collection[str] | None = None, most: int | None = None
) -> WordVectors:
    """The vectors of the ``wanted`` words, of all without; of the first ``most`` lines."""
    path, width = user_path(name), 0
    vectors: dict[str, NDArray[np.float32]] = {}
    with opened_stream(path) as file:
        progress.begin(f"reading {path.name}", 0, "rows")
        filled = ((n, line.rstrip().split(" ")) for n, line in lines(file) if line.strip())
        for number, fields in islice(filled, most):
            if number == 1 and len(fields) == 2 and all(map(str.isdecimal, fields)):
                continue  # the header of word2vec
            end = len(fields) - width if width else 1
            if len(fields) < 2 or end < 1 or end > 1 and None not in map(finite, fields[1:end]):
                expected = f", not {width} as before" if width else ""
                raise DataError(f"{path}:{number}: {len(fields) - 1} numbers{expected}", FORMAT)
            width = len(fields) - end
            progress.advance(1)
            word = " ".join(fields[:end])
            if word not in vectors and (wanted is None or word in wanted):
                if None in map(finite, fields[end:]):
                    message = f"{path}:{number}: not all of it after the word are numbers"
                    raise DataError(message, FORMAT)
                vectors[word] = np.array(fields[end:], dtype=np.float32)
        progress.end()
    if not width:
        raise DataError(f"{path}:1: no vectors in it", FORMAT)
    stacked = np.stack(list(vectors.values())) if vectors else np.zeros((0, width), np.float32)
    return WordVectors(tuple(vectors), stacked)


def vectors_width(name: str) -> int:
    """The number of numbers of the first word of a file."""
    return int(read_vectors(name, Silent(), wanted=(), most=2).vectors.shape[1])


def nearest_words(
    vectors: WordVectors, words: Collection[str], count: int
) -> dict[str, tuple[str, ...]]:
    """The ``count`` words nearest by the cosine to each of ``words`` that has a vector."""
    lengths = np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    unit = vectors.vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    rows = {word: row for row, word in enumerate(vectors.words)}
    known = sorted(rows[word] for word in set(words) if word in rows)
    nearest: dict[str, tuple[str, ...]] = {}
    for begin in range(0, len(known), WORDS_AT_ONCE):
        part = known[begin : begin + WORDS_AT_ONCE]
        cosines = unit[part] @ unit.T
        cosines[np.arange(len(part)), part] = -np.inf  # not the word itself
        best = np.argsort(-cosines, axis=1, kind="stable")[:, : min(count, len(unit) - 1)]
        for row, columns in zip(part, best.tolist(), strict=True):
            nearest[vectors.words[row]] = tuple(vectors.words[column] for column in columns)
    return nearest
