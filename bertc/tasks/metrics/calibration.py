"""Calibration of probabilities, and thresholds of several labels.

Axes: n examples, c labels. LabelScores are logits; of several labels at once each has a sigmoid.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LabelScores = NDArray[np.float64]
BINS = 15
"""Bins of equal width of the expected calibration error (Guo et al. 2017, section 4.1)."""
COLDEST, HOTTEST = 0.05, 20.0


@dataclass(frozen=True)
class HeadFit:
    """A temperature that scores are divided by, and the least probability of each label."""

    temperature: float = 1.0
    thresholds: tuple[float, ...] = ()


NO_FIT = HeadFit()


def probabilities(scores_nc: LabelScores, several: bool, fit: HeadFit) -> LabelScores:
    """Probabilities of labels, by a softmax or a sigmoid each."""
    scores_nc = scores_nc / fit.temperature
    if several:
        return np.asarray(1 / (1 + np.exp(-scores_nc)))
    powers_nc = np.exp(scores_nc - scores_nc.max(-1, keepdims=True))
    return np.asarray(powers_nc / powers_nc.sum(-1, keepdims=True))


def fitted(scores_nc: LabelScores, right_nc: LabelScores, several: bool) -> HeadFit:
    """The temperature of least cross entropy (Guo et al. 2017), and thresholds of the best F1."""
    low, high = np.log(COLDEST), np.log(HOTTEST)
    for _ in range(60):  # the loss has one minimum in the temperature
        thirds = (low + (high - low) / 3, high - (high - low) / 3)
        losses = [_loss(scores_nc, right_nc, several, HeadFit(float(np.exp(t)))) for t in thirds]
        low, high = (low, thirds[1]) if losses[0] < losses[1] else (thirds[0], high)
    warm = HeadFit(float(np.exp((low + high) / 2)))
    if not COLDEST * 1.01 < warm.temperature < HOTTEST / 1.01:  # as where all answers are right
        warm = NO_FIT
    parts = [probabilities(scores_nc, several, fit) for fit in (NO_FIT, warm)]
    before, after = (expected_error(parts_nc, right_nc, several) for parts_nc in parts)
    warm = NO_FIT if after > before else warm
    if not several:
        return warm
    parts_nc = probabilities(scores_nc, several, warm)
    best = (best_threshold(p_n, y_n) for p_n, y_n in zip(parts_nc.T, right_nc.T, strict=True))
    return HeadFit(warm.temperature, tuple(best))


def _loss(scores_nc: LabelScores, right_nc: LabelScores, several: bool, fit: HeadFit) -> float:
    parts_nc = probabilities(scores_nc, several, fit).clip(1e-12, 1 - 1e-12)
    others_nc = (1 - right_nc) * np.log(1 - parts_nc) if several else 0.0
    return float(-(right_nc * np.log(parts_nc) + others_nc).sum())


def best_threshold(parts_n: LabelScores, right_n: LabelScores, missing: int = 0) -> float:
    """The threshold of the best F1 of a label, between two probabilities; 0.5 if it has none.

    ``missing`` answers are right, and have no probability.
    """
    if not right_n.any():
        return 0.5
    order_n = np.argsort(-parts_n, kind="stable")
    hits_n = right_n[order_n].cumsum()
    f1_n = 2 * hits_n / (np.arange(1, len(hits_n) + 1) + right_n.sum() + missing)
    parts_n = parts_n[order_n]
    # Examples of equal probability are answered alike.
    f1_n[:-1] = np.where(parts_n[:-1] == parts_n[1:], -1.0, f1_n[:-1])
    best = int(f1_n.argmax())
    below = parts_n[best + 1] if best + 1 < len(parts_n) else 0.0
    return float((parts_n[best] + below) / 2)


def expected_error(parts_nc: LabelScores, right_nc: LabelScores, several: bool) -> float:
    """The mean distance of probability and accuracy over bins: of answers, or of every label."""
    if several:
        sure, hits = parts_nc.ravel(), right_nc.ravel()
    else:
        best_n = parts_nc.argmax(1)[:, None]
        sure = np.take_along_axis(parts_nc, best_n, 1)[:, 0]
        hits = np.take_along_axis(right_nc, best_n, 1)[:, 0]
    bins = (sure * BINS).astype(int).clip(0, BINS - 1)
    return float(np.abs(np.bincount(bins, sure - hits, minlength=BINS)).sum() / len(sure))
