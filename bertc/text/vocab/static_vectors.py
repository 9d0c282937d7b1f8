"""Static vectors of tokens, from their neighbours in a text, or from words of a file."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.text.cache.store import Progress
from bertc.text.sources.vectors import read_vectors
from bertc.text.vocab.token_rows import spelling_of
from bertc.text.vocab.vocabulary import Vocabulary

NEIGHBOURS = 1000
"""The most frequent tokens, of which neighbours are counted."""
REACH = 5  # word2vec's and FOCUS's
SMOOTHING = 0.75  # Levy, Goldberg and Dagan 2015, 3.2, as is the square root below
DIMENSIONS = 200
TOKENS_READ = 20_000_000
TOKENS_AT_ONCE = 1 << 20


def vectors_of_text(
    texts: Iterable[NDArray[np.unsignedinteger]], vocabulary: Vocabulary, progress: Progress
) -> NDArray[np.float32]:
    """Vectors (v, d) of tokens: positive pointwise mutual information with frequent neighbours.

    Reduced by a singular value decomposition; of tokens that the texts lack they are zero.
    """
    blocks = list(_blocks(texts))
    totals = sum((np.bincount(ids, minlength=vocabulary.size) for ids in blocks), start=0)
    totals = np.where(vocabulary.special, 0, totals)
    contexts = np.argsort(-totals, kind="stable")[: min(NEIGHBOURS, int((totals > 0).sum()))]
    column = np.full(vocabulary.size, -1)
    column[contexts] = np.arange(len(contexts))
    counts = np.zeros(vocabulary.size * len(contexts), np.float32)
    progress.begin("counting neighbours of tokens", len(blocks), "blocks")
    for ids in blocks:
        for distance in range(1, REACH + 1):
            for near, token in ((ids[distance:], ids[:-distance]), (ids, ids[distance:])):
                columns = column[near[: len(token)]]
                seen = (columns >= 0) & ~vocabulary.special[token]
                keys = token[seen].astype(np.int64) * len(contexts) + columns[seen]
                np.add.at(counts, keys, 1)
        progress.advance(1)
    progress.end()
    table = counts.reshape(vocabulary.size, len(contexts))
    of_token, of_context = table.sum(1), table.sum(0) ** SMOOTHING
    expected = of_token[:, None] * (of_context / max(of_context.sum(), 1))
    table = np.log(np.maximum(table, 1e-9) / np.maximum(expected, 1e-9)).clip(min=0)
    squares, directions = np.linalg.eigh(table.T @ table)
    squares, directions = squares[::-1][:DIMENSIONS], directions[:, ::-1][:, :DIMENSIONS]
    scale = np.maximum(squares, 1e-6) ** -0.25  # so that lengths are square roots of singular ones
    vectors: NDArray[np.float32] = (table @ (directions * scale)).astype(np.float32)
    return vectors


def _blocks(texts: Iterable[NDArray[np.unsignedinteger]]) -> Iterable[NDArray[np.unsignedinteger]]:
    left = TOKENS_READ
    for ids in texts:
        for begin in range(0, min(len(ids), left), TOKENS_AT_ONCE):
            yield np.asarray(ids[begin : begin + min(TOKENS_AT_ONCE, left - begin)])
        left -= min(len(ids), left)


def vectors_of_words(name: str, vocabulary: Vocabulary, progress: Progress) -> NDArray[np.float32]:
    """Vectors (v, d) of the tokens that are words of a file, as written or in small letters."""
    spelled = (
        (token, spelling_of(vocabulary, token))
        for token in np.flatnonzero(vocabulary.word_start & ~vocabulary.special).tolist()
    )
    words = {token: spelling[1] for token, spelling in spelled if spelling}
    wanted = {form for word in words.values() for form in (word, word.lower())}
    known = read_vectors(name, progress, wanted=wanted)
    rows = {word: row for row, word in enumerate(known.words)}
    vectors = np.zeros((vocabulary.size, known.vectors.shape[1]), np.float32)
    for token, word in words.items():
        if (row := rows.get(word, rows.get(word.lower(), -1))) >= 0:
            vectors[token] = known.vectors[row]
    if not vectors.any():
        raise DataError(
            f"no word of {name} is a token of the vocabulary",
            "vectors of words of this text; those that are tokens are many in vocab=words(20k)",
        )
    return vectors
