"""Rows of a token table as weighted sums of others, and static vectors of words and of tokens."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import user_path
from bertc.ir.changing.growth import Focus, Mean, Redrawn, SameTokens, TokenRows
from bertc.text.cache.store import Progress, Silent
from bertc.text.sources.cells import finite
from bertc.text.sources.source import lines, opened_stream
from bertc.text.vocab.vocabulary import BEGINS, BLANK, ROLES, Vocabulary

Spelling = tuple[str, str] | tuple[bool, str]
"""A token as any kind of vocabulary may have it: whether it begins a word, and its text."""
MOST_TERMS = 256
"""Similarities that may have a weight; sparsemax gives most of them none."""
ROWS_AT_ONCE = 512
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TokenSums:
    """For each new token a weighted sum of old rows; a token without a term is drawn.

    ``weights`` (n,) are of the old rows ``sources`` (n,) in the new rows ``tokens`` (n,); ``equal``
    new tokens are old ones, ``mixed`` have several terms, of ``size``.
    """

    tokens: Ints
    sources: Ints
    weights: NDArray[np.float32]
    size: int
    equal: int
    mixed: int


def token_sums(
    old: Vocabulary, new: Vocabulary, kind: TokenRows, vectors: NDArray[np.float32] | None = None
) -> TokenSums:
    """The rows of the new tokens; ``vectors`` (v, d) are of those, zero where one has none."""
    known = dict[Spelling, int]()
    for token, spellings in _spellings(old):
        for spelling in spellings:
            known.setdefault(spelling, token)
    equal = np.full(new.size, -1, np.int64)  # the old token that each new one is
    for token, spellings in _spellings(new):
        equal[token] = next((known[s] for s in spellings if s in known), -1)
    sums = {token: {int(source): 1.0} for token, source in enumerate(equal) if source >= 0}
    count = len(sums)
    match kind:
        case SameTokens():
            pass
        case Redrawn():
            sums = {}
        case Mean():
            sums |= _means(old, new, [n for n in range(new.size) if n not in sums])
        case Focus():
            assert vectors is not None, "vectors of tokens are made or read before"
            anchors = np.flatnonzero((equal >= 0) & vectors.any(1))
            sums |= _similar(vectors, np.flatnonzero((equal < 0) & vectors.any(1)), anchors, equal)
        case unreachable:
            assert_never(unreachable)
    terms = [(n, source, w) for n, sum_ in sums.items() for source, w in sum_.items()]
    tokens, sources, weights = zip(*terms, strict=True) if terms else ((), (), ())
    of_equal, of_several = (count, len(sums) - count) if sums else (0, 0)
    return TokenSums(
        np.array(tokens, np.int64), np.array(sources, np.int64), np.array(weights, np.float32),
        new.size, of_equal, of_several,
    )  # fmt: skip


def _spellings(vocabulary: Vocabulary) -> Iterator[tuple[int, list[Spelling]]]:
    """Each token with its spellings, the most telling first: roles, or how it begins and its text.

    Signs alone have no beginning: pre-tokenizers disagree on whether they begin words.
    """
    roles = dict[int, list[Spelling]]()
    for role in (*ROLES, "bos", "eos"):
        if (token := getattr(vocabulary, role)) is not None:
            roles.setdefault(token, []).append(("role", role))
    for token in range(vocabulary.size):
        if token in roles:
            yield token, roles[token]
        elif vocabulary.special[token]:
            yield token, [("special", vocabulary.token(token))]
        elif (spelled := spelling_of(vocabulary, token)) is not None:
            begins, text = spelled
            signs: list[Spelling] = [("signs", text)] if not any(map(str.isalnum, text)) else []
            yield token, [(begins, text), *signs]


def spelling_of(vocabulary: Vocabulary, token: int) -> tuple[bool, str] | None:
    """A token as (begins a word, text); None for a part of a character, or no text."""
    text = vocabulary.token(token)
    if (raw := vocabulary.raw(token)) is not None:
        try:
            text = raw.decode().replace(" ", BLANK, 1) if raw[:1] == b" " else raw.decode()
        except UnicodeDecodeError:
            return None
    begins = bool(vocabulary.word_start[token]) or text.startswith(BLANK)
    text = text.removeprefix("##") if not begins else text
    return (begins, text.lstrip(BLANK)) if text.strip(BLANK + BEGINS) else None


def _means(old: Vocabulary, new: Vocabulary, tokens: Sequence[int]) -> dict[int, dict[int, float]]:
    """The mean of the old pieces of each token's text; unknown ones do not count."""
    spelled = [(token, spelling_of(new, token)) for token in tokens if not new.special[token]]
    texts = {token: " " * s[0] + s[1] for token, s in spelled if s is not None}
    encoded = old.tokenizer.encode_batch_fast([*texts.values()], add_special_tokens=False)
    sums = dict[int, dict[int, float]]()
    for token, encoding in zip(texts, encoded, strict=True):
        if pieces := [piece for piece in encoding.ids if piece != old.unk]:
            terms = sums.setdefault(token, {})
            for piece in pieces:
                terms[piece] = terms.get(piece, 0.0) + 1 / len(pieces)
    return sums


def _similar(
    vectors: NDArray[np.float32], tokens: Ints, anchors: Ints, equal: Ints
) -> dict[int, dict[int, float]]:
    """Weights of old rows for tokens, by likeness to anchors: new tokens ``equal`` to old ones."""
    sums = dict[int, dict[int, float]]()
    most, units = min(MOST_TERMS, len(anchors)), unit_rows(vectors[anchors])
    for begin in range(0, len(tokens) if most else 0, ROWS_AT_ONCE):
        part = tokens[begin : begin + ROWS_AT_ONCE]
        cosines = unit_rows(vectors[part]) @ units.T
        best = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
        weights = sparsemax(np.take_along_axis(cosines, best, axis=1))
        for token, columns, row in zip(part.tolist(), best, weights, strict=True):
            terms = sums.setdefault(token, {})
            for column, weight in zip(columns[row > 0], row[row > 0], strict=True):
                terms[int(equal[anchors[column]])] = float(weight)
    return sums


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors of length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny))


def sparsemax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest point of the simplex to each row (Martins and Astudillo 2016, algorithm 1)."""
    falling = -np.sort(-scores.astype(np.float64), axis=1)
    sums = np.cumsum(falling, axis=1) - 1
    support = np.sum(falling * np.arange(1, scores.shape[1] + 1) > sums, axis=1)
    threshold = sums[np.arange(len(scores)), support - 1] / support
    return np.asarray(np.maximum(scores - threshold[:, None], 0), np.float32)


FORMAT = "a line has a word and its numbers, as in `the 0.418 0.24968 -0.41242`"
WORDS_AT_ONCE = 256
"""Words whose neighbours are found by one product."""
NEIGHBOURS = 1000
"""The most frequent tokens, of which neighbours are counted."""
REACH = 5  # word2vec's and FOCUS's
SMOOTHING = 0.75  # Levy, Goldberg and Dagan 2015, 3.2, as is the square root below
DIMENSIONS = 200
TOKENS_READ = 20_000_000
TOKENS_AT_ONCE = 1 << 20


WordVectors = tuple[tuple[str, ...], NDArray[np.float32]]
"""Words of a file, each once, and their vectors (words, width)."""


def read_vectors(
    name: str, progress: Progress, words: Collection[str] | None = None, most: int | None = None
) -> WordVectors:
    """The vectors of these ``words``, of all without; of the first ``most`` lines."""
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
            if word not in vectors and (words is None or word in words):
                if None in map(finite, fields[end:]):
                    message = f"{path}:{number}: not all of it after the word are numbers"
                    raise DataError(message, FORMAT)
                vectors[word] = np.array(fields[end:], dtype=np.float32)
        progress.end()
    if not width:
        raise DataError(f"{path}:1: no vectors in it", FORMAT)
    stacked = np.stack(list(vectors.values())) if vectors else np.zeros((0, width), np.float32)
    return tuple(vectors), stacked


def vectors_width(name: str) -> int:
    """The number of numbers of the first word of a file."""
    return int(read_vectors(name, Silent(), words=(), most=2)[1].shape[1])


def nearest_words(
    vectors: WordVectors, words: Collection[str], count: int
) -> dict[str, tuple[str, ...]]:
    """The ``count`` words nearest by the cosine to each of ``words`` that has a vector."""
    all_words, unit = vectors[0], unit_rows(vectors[1])
    rows = {word: row for row, word in enumerate(all_words)}
    known = sorted(rows[word] for word in set(words) if word in rows)
    nearest: dict[str, tuple[str, ...]] = {}
    for begin in range(0, len(known), WORDS_AT_ONCE):
        part = known[begin : begin + WORDS_AT_ONCE]
        cosines = unit[part] @ unit.T
        cosines[np.arange(len(part)), part] = -np.inf  # not the word itself
        best = np.argsort(-cosines, axis=1, kind="stable")[:, : min(count, len(unit) - 1)]
        for row, columns in zip(part, best.tolist(), strict=True):
            nearest[all_words[row]] = tuple(all_words[column] for column in columns)
    return nearest


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
                np.add.at(counts, token[seen].astype(np.int64) * len(contexts) + columns[seen], 1)
        progress.advance(1)
    progress.end()
    table = counts.reshape(vocabulary.size, len(contexts))
    of_token, of_context = table.sum(1), table.sum(0) ** SMOOTHING
    expected = of_token[:, None] * (of_context / max(of_context.sum(), 1))
    table = np.log(np.maximum(table, 1e-9) / np.maximum(expected, 1e-9)).clip(min=0)
    squares, directions = np.linalg.eigh(table.T @ table)
    squares, directions = squares[::-1][:DIMENSIONS], directions[:, ::-1][:, :DIMENSIONS]
    scale = np.maximum(squares, 1e-6) ** -0.25  # so that lengths are square roots of singular ones
    return np.asarray(table @ (directions * scale), dtype=np.float32)


def _blocks(texts: Iterable[NDArray[np.unsignedinteger]]) -> Iterable[NDArray[np.unsignedinteger]]:
    remaining = TOKENS_READ
    for ids in texts:
        for begin in range(0, min(len(ids), remaining), TOKENS_AT_ONCE):
            yield np.asarray(ids[begin : begin + min(TOKENS_AT_ONCE, remaining - begin)])
        remaining -= min(len(ids), remaining)


def vectors_of_words(name: str, vocabulary: Vocabulary, progress: Progress) -> NDArray[np.float32]:
    """Vectors (v, d) of the tokens that are words of a file, as written or in small letters."""
    spelled = (
        (token, spelling_of(vocabulary, token))
        for token in np.flatnonzero(vocabulary.word_start & ~vocabulary.special).tolist()
    )
    words = {token: spelling[1] for token, spelling in spelled if spelling}
    forms = {form for word in words.values() for form in (word, word.lower())}
    read = read_vectors(name, progress, forms)
    known = dict(zip(*read, strict=True))
    vectors = np.zeros((vocabulary.size, read[1].shape[1]), np.float32)
    for token, word in words.items():
        if (vector := known.get(word, known.get(word.lower()))) is not None:
            vectors[token] = vector
    if not vectors.any():
        help = "vectors of words of this text; those that are tokens are many in vocab=words(20k)"
        raise DataError(f"no word of {name} is a token of the vocabulary", help)
    return vectors
