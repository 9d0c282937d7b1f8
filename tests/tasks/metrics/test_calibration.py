"""Calibration and thresholds beside their definitions."""

import numpy as np
import pytest

from bertc.tasks.metrics.calibration import (
    NO_FIT,
    HeadFit,
    best_threshold,
    expected_error,
    fitted,
    probabilities,
)


@pytest.mark.parametrize("several", [False, True])
def test_a_temperature_undoes_scores_that_are_too_sure(several: bool) -> None:
    rng = np.random.default_rng(1)
    true_nc = rng.normal(size=(4000, 3))
    parts_nc = probabilities(true_nc, several, NO_FIT)
    if several:
        right_nc = (rng.random(true_nc.shape) < parts_nc).astype(float)
    else:
        drawn_n = (rng.random((4000, 1)) > parts_nc.cumsum(1)).sum(1)
        right_nc = np.eye(3)[drawn_n.clip(0, 2)]
    fit = fitted(3 * true_nc, right_nc, several)
    assert fit.temperature == pytest.approx(3, rel=0.1)
    sure, calm = (
        expected_error(probabilities(3 * true_nc, several, of), right_nc, several)
        for of in (NO_FIT, HeadFit(fit.temperature))
    )
    assert calm < 0.04 < 0.1 < sure
    assert len(fit.thresholds) == (3 if several else 0)


def test_a_temperature_that_raises_the_calibration_error_is_not_kept() -> None:
    rng = np.random.default_rng(3)
    right_nc = (rng.random((400, 2)) < 0.3).astype(float)
    scores_nc = np.log(0.3 / 0.7) + np.where(rng.random((400, 2)) < 0.02, 6, -0.1) * (1 - right_nc)
    assert fitted(scores_nc, right_nc, several=True).temperature == 1


def test_the_expected_error_is_by_bins_of_answers() -> None:
    parts_nc = np.array([[0.9, 0.1], [0.92, 0.08], [0.3, 0.7]])
    right_nc = np.array([[1.0, 0], [0, 1], [0, 1]])
    # 0.9 and 0.92 are in one bin, half right; 0.7 is right.
    assert expected_error(parts_nc, right_nc, False) == pytest.approx((0.41 * 2 + 0.3) / 3)


def test_a_threshold_has_the_best_f1_of_all() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        parts_n, right_n = rng.integers(1, 9, 12) / 10, (rng.random(12) < 0.4).astype(float)

        def f1(least: float, parts_n=parts_n, right_n=right_n) -> float:  # type: ignore[no-untyped-def]
            given_n = parts_n > least
            return float(2 * (given_n * right_n).sum() / max(1, given_n.sum() + right_n.sum()))

        best = best_threshold(parts_n, right_n)
        assert f1(best) == max(f1(least) for least in np.arange(0, 1, 0.05))
    assert best_threshold(np.ones(3), np.zeros(3)) == 0.5
