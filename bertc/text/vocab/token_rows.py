"""Rows of a token table as weighted sums of the rows of another, from the two vocabularies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from bertc.ir.changing.growth import Focus, Mean, Redrawn, SameTokens, TokenRows
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
