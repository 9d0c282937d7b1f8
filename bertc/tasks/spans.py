"""From the scores of tokens to the text of an answer.

Axes: w windows of one question, s tokens of the longest of them, k likeliest beginnings, e
likeliest ends of each, f how much further an answer goes than its first token, p places in the
passage, counted in tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]
Place = tuple[int, ...]

NOWHERE = 1e6
"""Null odds where no window has any text; the official scripts' number without bounds."""


@dataclass(frozen=True)
class Window:
    """A row of one question and a part of its passage.

    ``question`` is the index of the example, ``first_token`` the place in the passage of the first
    token that is of it, ``offsets`` (s, 2) where each token begins and ends in the passage, in
    characters, and -1 for what is no passage.
    """

    question: int
    first_token: int
    offsets: Ints


@dataclass(frozen=True)
class Candidate:
    """A possible answer, and its probability among those kept; the text "" is none at all."""

    text: str
    score: float
    probability: float


@dataclass(frozen=True)
class Decoded:
    """What is read in the passage of one question.

    ``text`` is the answer, "" for none; ``likeliest`` is the best text there is, ``odds`` how much
    none is preferred to it (None where every question has an answer), ``best`` the texts that score
    most, and none among them where that is possible.
    """

    text: str
    likeliest: str
    odds: float | None
    best: tuple[Candidate, ...]


def decode_plain(
    passage: str,
    windows: Sequence[Window],
    starts: Sequence[Floats],
    ends: Sequence[Floats],
    *,
    best: int,
    longest: int,
    unanswerable: bool,
    threshold: float,
) -> Decoded:
    """The answer from a score of each token, (s,) for each window, to begin and to end it.

    As BERT's run_squad.py: a beginning counts only where it has the most context; none at all
    scores what the first token of the least sure window does, and is the answer where that is more
    than ``threshold`` above the best text.
    """
    offsets_ws2 = _offsets(windows)
    start_ws, end_ws = _rows(starts, offsets_ws2), _rows(ends, offsets_ws2)
    null = float((start_ws[:, 0] + end_ws[:, 0]).min())
    text_ws = offsets_ws2[..., 0] >= 0
    start_ws = np.where(text_ws & _most_context(windows, offsets_ws2), start_ws, -np.inf)
    end_ws = np.pad(
        np.where(text_ws, end_ws, -np.inf), ((0, 0), (0, longest - 1)), constant_values=-np.inf
    )
    end_wsf = np.lib.stride_tricks.sliding_window_view(end_ws, longest, axis=1)
    score_wsf = start_ws[..., None] + end_wsf
    found = (
        (score, (window, first, first + further))
        for score, (window, first, further) in _descending(score_wsf, 2 * best)
    )
    texts = _distinct(passage, offsets_ws2, found, best)
    if not unanswerable:
        return _decoded(texts, None, threshold)
    odds = null - texts[0][0] if texts else NOWHERE
    return _decoded(sorted([*texts, (null, "")], key=lambda scored: -scored[0]), odds, threshold)


def decode_conditioned(
    passage: str,
    windows: Sequence[Window],
    start_wk: Floats,
    start_at_wk: Ints,
    end_wke: Floats,
    end_at_wke: Ints,
    none_w: Floats | None,
    *,
    best: int,
    longest: int,
    threshold: float,
) -> Decoded:
    """The answer from the likeliest beginnings, and the likeliest ends of each.

    Scores are logarithms of probabilities, ``_at_`` are the tokens they are of. ``none_w`` is the
    log odds that a window has no answer, absent where every question has one: as in XLNet's,
    ALBERT's and ELECTRA's scripts their least is the null odds, without regard to the texts.
    """
    offsets_ws2 = _offsets(windows)
    starts_ws = (offsets_ws2[..., 0] >= 0) & _most_context(windows, offsets_ws2)
    window_w = np.arange(len(windows))
    start_at_wke = np.broadcast_to(start_at_wk[..., None], end_at_wke.shape)
    further_wke = end_at_wke - start_at_wke
    possible_wke = (
        starts_ws[window_w[:, None], start_at_wk][..., None]
        & (offsets_ws2[window_w[:, None, None], end_at_wke, 0] >= 0)
        & (further_wke >= 0)
        & (further_wke < longest)
    )
    sum_wke = start_wk[..., None].astype(np.float64) + end_wke
    found = (
        (score, (at[0], int(start_at_wke[at]), int(end_at_wke[at])))
        for score, at in _descending(np.where(possible_wke, sum_wke, -np.inf), 2 * best)
    )
    texts = _distinct(passage, offsets_ws2, found, best)
    return _decoded(texts, None if none_w is None else float(none_w.min()), threshold)


def _offsets(windows: Sequence[Window]) -> Ints:
    """Offsets (w, s, 2) of all windows, -1 after the end of the shorter ones."""
    longest = max(len(window.offsets) for window in windows)
    offsets_ws2 = np.full((len(windows), longest, 2), -1, dtype=np.int64)
    for row, window in zip(offsets_ws2, windows, strict=True):
        row[: len(window.offsets)] = window.offsets
    return offsets_ws2


def _rows(scores: Sequence[Floats], offsets_ws2: Ints) -> NDArray[np.float64]:
    """Scores (w, s) of all windows, cut to as many tokens as there are."""
    score_ws = np.full(offsets_ws2.shape[:2], -np.inf)
    for row, score_s in zip(score_ws, scores, strict=True):
        row[: len(score_s)] = score_s[: len(row)]
    return score_ws


def _most_context(windows: Sequence[Window], offsets_ws2: Ints) -> NDArray[np.bool_]:
    """Whether no other window (w, s) has more of the passage on a token's scarcer side.

    Of windows alike the longer one counts, a token for a hundredth, then the earlier.
    """
    text_ws = offsets_ws2[..., 0] >= 0
    if len(windows) == 1:
        return text_ws
    count_w = text_ws.sum(axis=1)
    first_w = np.array([window.first_token for window in windows])
    place_p = np.arange(max(1, int((first_w + count_w).max())))
    before_wp = place_p - first_w[:, None]
    after_wp = count_w[:, None] - 1 - before_wp
    scarcer_wp = np.minimum(before_wp, after_wp)
    context_wp = np.where(scarcer_wp < 0, -np.inf, scarcer_wp + 0.01 * count_w[:, None])
    owner_p = context_wp.argmax(axis=0)
    place_ws = np.where(text_ws, first_w[:, None] + text_ws.cumsum(axis=1) - 1, 0)
    most_ws: NDArray[np.bool_] = owner_p[place_ws] == np.arange(len(windows))[:, None]
    return text_ws & most_ws


def _descending(scores: NDArray[np.float64], at_once: int) -> Iterator[tuple[float, Place]]:
    """Scores above -inf and where they are, from the highest down, of equal ones the first first.

    So many are sorted to begin with, and the rest only if somebody asks for more.
    """
    flat = scores.ravel()
    if at_once < len(flat):
        least = np.partition(flat, len(flat) - at_once)[len(flat) - at_once]
        parts: Iterable[tuple[float, float]] = ((least, np.inf), (-np.inf, least))
    else:
        parts = ((-np.inf, np.inf),)
    for low, high in parts:
        among = np.flatnonzero((flat >= low) & (flat < high) & (flat > -np.inf))
        ordered = among[np.argsort(-flat[among], kind="stable")]
        places = np.stack(np.unravel_index(ordered, scores.shape), axis=1).tolist()
        yield from zip(flat[ordered].tolist(), map(tuple, places), strict=True)


def _distinct(
    passage: str, offsets_ws2: Ints, found: Iterator[tuple[float, Place]], best: int
) -> list[tuple[float, str]]:
    """The first texts that differ, each with the best of its scores."""
    texts: dict[str, float] = {}
    for score, (window, first, last) in found:
        begin, end = offsets_ws2[window, first, 0], offsets_ws2[window, last, 1]
        text = passage[begin:end].strip()
        if text:
            texts.setdefault(text, score)
        if len(texts) == best:
            break
    return [(score, text) for text, score in texts.items()]


def _decoded(scored: list[tuple[float, str]], odds: float | None, threshold: float) -> Decoded:
    likeliest = next((text for _, text in scored if text), "")
    score_b = np.array([score for score, _ in scored])
    share_b = np.exp(score_b - score_b.max(initial=-np.inf))
    best = tuple(
        Candidate(text, score, float(probability))
        for (score, text), probability in zip(scored, share_b / share_b.sum(), strict=True)
    )
    text = likeliest if odds is None or odds <= threshold else ""
    return Decoded(text, likeliest, odds, best)
