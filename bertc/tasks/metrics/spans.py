"""Decoding of answer spans from the scores of tokens, and spans of words with names.

Axes: w windows of one question, s tokens of the longest of them, k likeliest beginnings, e
likeliest ends of each, f how much further an answer goes than its first token, p places in the
passage, counted in tokens. Of words with names w words, n names, l widths in words.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.tasks.layouts.example import Examples
from bertc.tasks.metrics.calibration import HeadFit, best_threshold
from bertc.tasks.metrics.metrics import spans

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]
ArrayIndex = tuple[int, ...]
NOWHERE = 1e6
"""Null odds if no window has any text; in place of the unbounded number of the official scripts."""


class Window(NamedTuple):
    """The position of one row in its passage."""

    first_token: int  # index in the passage of the row's first passage token
    offsets: Ints  # (s, 2) begin and end of tokens, in characters; -1 outside of the passage


class AnswerCandidate(NamedTuple):
    """A possible answer, with its probability among the candidates; "" means no answer."""

    text: str
    score: float
    probability: float


class Decoded(NamedTuple):
    """The decoded answer to one question.

    ``text`` is the answer, "" for none; ``likeliest`` the best text; ``odds`` the score of no
    answer over it (None if every question has an answer); ``best`` the candidates with the highest
    scores, no answer among them where that is possible.
    """

    text: str
    likeliest: str
    odds: float | None
    best: tuple[AnswerCandidate, ...]


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
    """Decode from independent start and end scores of tokens, (s,) for each window.

    As in BERT's run_squad.py: a start counts only in the window where it has the most context. No
    answer scores as the first token does, minimum over windows; it is chosen if that exceeds the
    best text by more than ``threshold``.
    """
    offsets_ws2 = _offsets(windows)
    start_ws, end_ws = _rows(starts, offsets_ws2), _rows(ends, offsets_ws2)
    null = float((start_ws[:, 0] + end_ws[:, 0]).min())
    text_ws = offsets_ws2[..., 0] >= 0
    start_ws = np.where(text_ws & _most_context(windows, offsets_ws2), start_ws, -np.inf)
    end_ws = np.where(text_ws, end_ws, -np.inf)
    end_ws = np.pad(end_ws, ((0, 0), (0, longest - 1)), constant_values=-np.inf)
    end_wsf = np.lib.stride_tricks.sliding_window_view(end_ws, longest, axis=1)
    scored_places = (
        (score, (window, first, first + further))
        for score, (window, first, further) in _descending(start_ws[..., None] + end_wsf, 2 * best)
    )
    texts = _distinct(passage, offsets_ws2, scored_places, best)
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
    """Decode from the likeliest starts and, given each start, its likeliest ends.

    Scores are log-probabilities, ``_at_`` their token indices. ``none_w`` has the log odds that a
    window has no answer, None if every question has one. As in XLNet's, ALBERT's and ELECTRA's
    scripts their minimum is the null odds, whatever the texts score.
    """
    # Scores are of rows padded for a batch, so the likeliest places may lie beyond all windows.
    offsets_ws2 = _offsets(windows, 1 + max(int(start_at_wk.max()), int(end_at_wke.max())))
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
    scored_places = (
        (score, (place[0], int(start_at_wke[place]), int(end_at_wke[place])))
        for score, place in _descending(np.where(possible_wke, sum_wke, -np.inf), 2 * best)
    )
    texts = _distinct(passage, offsets_ws2, scored_places, best)
    return _decoded(texts, None if none_w is None else float(none_w.min()), threshold)


def _offsets(windows: Sequence[Window], at_least: int = 0) -> Ints:
    """Offsets (w, s, 2) of all windows, padded with -1 to ``at_least`` tokens or more."""
    longest = max(at_least, *(len(window.offsets) for window in windows))
    offsets_ws2 = np.full((len(windows), longest, 2), -1, dtype=np.int64)
    for row, window in zip(offsets_ws2, windows, strict=True):
        row[: len(window.offsets)] = window.offsets
    return offsets_ws2


def _rows(scores: Sequence[Floats], offsets_ws2: Ints) -> NDArray[np.float64]:
    """Scores (w, s) of all windows, cut or padded with -inf to their tokens."""
    score_ws = np.full(offsets_ws2.shape[:2], -np.inf)
    for row, score_s in zip(score_ws, scores, strict=True):
        row[: len(score_s)] = score_s[: len(row)]
    return score_ws


def _most_context(windows: Sequence[Window], offsets_ws2: Ints) -> NDArray[np.bool_]:
    """True (w, s) in the window with the most context: the smaller side, plus 0.01 a token."""
    text_ws = offsets_ws2[..., 0] >= 0
    if len(windows) == 1:
        return text_ws
    count_w = text_ws.sum(axis=1)
    first_w = np.array([window.first_token for window in windows])
    before_wp = np.arange(max(1, int((first_w + count_w).max()))) - first_w[:, None]
    scarcer_wp = np.minimum(before_wp, count_w[:, None] - 1 - before_wp)
    context_wp = np.where(scarcer_wp < 0, -np.inf, scarcer_wp + 0.01 * count_w[:, None])
    owner_p = context_wp.argmax(axis=0)
    place_ws = np.where(text_ws, first_w[:, None] + text_ws.cumsum(axis=1) - 1, 0)
    return np.asarray(text_ws & (owner_p[place_ws] == np.arange(len(windows))[:, None]))


def _descending(scores: NDArray[np.float64], at_once: int) -> Iterator[tuple[float, ArrayIndex]]:
    """Finite scores with their indices, in descending order; the first ``at_once`` at once."""
    flat = scores.ravel()
    if at_once < len(flat):
        least = np.partition(flat, len(flat) - at_once)[len(flat) - at_once]
        parts: Iterable[tuple[float, float]] = ((least, np.inf), (-np.inf, least))
    else:
        parts = ((-np.inf, np.inf),)
    for low, high in parts:
        in_range = np.flatnonzero((flat >= low) & (flat < high) & (flat > -np.inf))
        ordered = in_range[np.argsort(-flat[in_range], kind="stable")]
        places = np.stack(np.unravel_index(ordered, scores.shape), axis=1).tolist()
        yield from zip(flat[ordered].tolist(), map(tuple, places), strict=True)


def _distinct(
    passage: str, offsets_ws2: Ints, scored_places: Iterator[tuple[float, ArrayIndex]], best: int
) -> list[tuple[float, str]]:
    texts: dict[str, float] = {}
    for score, (window, first, last) in scored_places:
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
        AnswerCandidate(text, score, float(probability))
        for (score, text), probability in zip(scored, share_b / share_b.sum(), strict=True)
    )
    text = likeliest if odds is None or odds <= threshold else ""
    return Decoded(text, likeliest, odds, best)


LEAST_LIKELY = 0.05
"""The least probability of a span for which a threshold is sought."""


class NamedSpan(NamedTuple):
    """A span of words by its first and last, counted from 0, and how likely it is."""

    name: str
    first: int
    last: int
    likely: float


def spans_apart(likely_wnl: NDArray[np.float64], names: Sequence[str]) -> list[NamedSpan]:
    """Spans that do not overlap, the likeliest first (gliner decoder.py, greedy_search).

    Those above any threshold are the first of them.
    """
    places, chosen = np.argwhere(likely_wnl > LEAST_LIKELY), list[NamedSpan]()
    likely, taken = likely_wnl[tuple(places.T)], np.zeros(sum(likely_wnl.shape), np.bool_)
    for at in np.argsort(-likely, kind="stable").tolist():
        first, name, width = places[at].tolist()
        if not taken[first : first + width + 1].any():
            taken[first : first + width + 1] = True
            chosen.append(NamedSpan(names[name], first, first + width, float(likely[at])))
    return chosen


def named_tags(
    examples: Examples, named: Sequence[Sequence[NamedSpan]], fit: HeadFit
) -> Iterator[tuple[str, ...]]:
    """Tags of words by the spans above the threshold, 0.5 if none is fitted."""
    (least,) = fit.thresholds or (0.5,)
    for example, answered in zip(examples, named, strict=True):
        tags = ["O"] * len(getattr(example, "words", ()))
        for name, first, last, likely in answered:
            if likely > least:
                tags[first : last + 1] = [f"B-{name}", *[f"I-{name}"] * (last - first)]
        yield tuple(tags)


def named_threshold(examples: Examples, named: Sequence[Sequence[NamedSpan]]) -> float:
    """The threshold of the best F1 of spans."""
    likely, right, missing = list[float](), list[float](), 0
    for example, answered in zip(examples, named, strict=True):
        known = spans(getattr(example, "tags", ()))
        missing += len(known - {span[:3] for span in answered})
        likely += [span.likely for span in answered]
        right += [float(span[:3] in known) for span in answered]
    return best_threshold(np.array(likely), np.array(right), missing)
