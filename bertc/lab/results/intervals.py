"""95% intervals of means over seeds, and of the difference of two (Student's, Welch's)."""

import math

from bertc.lab.results.groups import Summary

STUDENT = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157,
    2.228139, 2.200985, 2.178813, 2.160369, 2.144787,
)  # fmt: skip
"""Quantiles 0.975 of Student's distribution for 1, 2, ... degrees of freedom."""
NORMAL = 1.959964
"""The same quantile of the normal distribution."""
SPREAD = "mean over seeds ± half its 95% interval (Student's)"
"""The meaning of ± in every table, in words."""


def interval(summary: Summary) -> float:
    """Half the 95% interval of a mean over seeds; 0 for one run."""
    if summary.runs < 2:
        return 0.0
    return _quantile(summary.runs - 1) * summary.deviation / math.sqrt(summary.runs)


def mean_text(summary: Summary) -> str:
    """A mean, with half its 95% interval where there are several runs."""
    if summary.runs == 1:
        return f"{summary.mean:.4f}"
    return f"{summary.mean:.4f} ± {interval(summary):.4f}"


def interval_of_difference(first: Summary, second: Summary) -> float:
    """Half the 95% interval of the difference of two means (Welch 1947); infinite of one run."""
    if min(first.runs, second.runs) < 2:
        return math.inf
    variances = [summary.deviation**2 / summary.runs for summary in (first, second)]
    total = sum(variances)
    if total == 0:
        return 0.0
    parts = (v**2 / (sample.runs - 1) for v, sample in zip(variances, (first, second), strict=True))
    return _quantile(total**2 / sum(parts)) * math.sqrt(total)


def _quantile(freedom: float) -> float:
    """The quantile at whole degrees of freedom, at most these, so that intervals are no shorter."""
    degrees = max(1, int(freedom + 1e-9))
    if degrees <= len(STUDENT):
        return STUDENT[degrees - 1]
    # Abramowitz & Stegun 26.7.5, whose two terms are within .001 here.
    return NORMAL + (NORMAL**3 + NORMAL) / (4 * degrees) + 2.8225 / degrees**2
