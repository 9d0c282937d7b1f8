"""Metrics of ranked documents, as trec_eval and sentence-transformers compute them."""

import math
from collections.abc import Mapping, Sequence

from bertc.ir.learning.answer import Metric

MOST_RANKED = 100
"""Documents that are ranked for a query."""


def ranked_scores(
    metrics: Sequence[Metric],
    ranked: Sequence[Sequence[str]],
    relevant: Sequence[Mapping[str, float]],
) -> dict[str, float]:
    """Means over queries, each with its documents by rank and the grades of relevant ones."""
    pairs = [*zip(ranked, relevant, strict=True)]
    sums = {metric: math.fsum(_value(metric, *pair) for pair in pairs) for metric in metrics}
    return {metric: total / len(pairs) for metric, total in sums.items()}


def _value(metric: Metric, ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    hits = [rank for rank, key in enumerate(ranked, 1) if key in grades]
    match metric:
        case "mrr@10":
            return 1 / hits[0] if hits and hits[0] <= 10 else 0.0
        case "ndcg@10":
            best = sorted(grades.values(), reverse=True)[:10]
            return _gain([grades.get(key, 0.0) for key in ranked[:10]]) / _gain(best)
        case "recall@100":
            return sum(rank <= 100 for rank in hits) / len(grades)
        case "map":
            return math.fsum(nth / rank for nth, rank in enumerate(hits, 1)) / len(grades)
        case _:
            raise AssertionError(f"{metric} is not of ranks")


def _gain(grades: Sequence[float]) -> float:
    """Discounted cumulative gain (Jarvelin and Kekalainen 2002, grades as they are)."""
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))
