"""A law of losses, E + A / N^a + B / D^b (Hoffmann et al. 2022).

N are parameters, D tokens. E, A and B, which are never negative, are fitted to the rungs. The
exponents are published ones: small runs are too alike to tell them from E. Loads no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, inf, sqrt
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

PARAMETERS = 3
"""Numbers that are fitted."""
HUBER = 1e-3
"""Relative error beyond which errors count by size, not by square (Hoffmann et al. 2022, D)."""
Powers = tuple[float, float]
POWERS: Powers = (0.34, 0.32)
"""a of Hoffmann et al. 2022; b between theirs, 0.28, and that of Besiroglu et al. 2024, 0.37."""
LEAST, MOST = (0.25, 0.28), (0.5, 0.37)
"""Exponents between which those of an interval are drawn."""
PASSES_WORTH = 15.39
"""Repeated tokens are worth less: R* of Muennighoff et al. 2023, section 5.1."""
ROUNDS, RIDGE = 5, 1e-12
"""Rounds in which errors are weighted anew, and what keeps equal columns apart."""
MOST_TOKENS = 1e15
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rung:
    """A small run and its held-out loss; of its ``parameters`` some are of ``tables``."""

    name: str
    parameters: int
    tables: int
    tokens: float
    flops: float
    seconds: float
    loss: float


@dataclass(frozen=True)
class Law:
    """The five numbers; ``with_tables``: N counts the tables too; ``pass_tokens``: of the text."""

    floor: float
    of_size: float
    size_power: float
    of_tokens: float
    tokens_power: float
    with_tables: bool = False
    pass_tokens: float = inf

    def loss(self, parameters: float, tables: float, tokens: float) -> float:
        """The expected loss in nats."""
        size = parameters - (0 if self.with_tables else tables)
        read = worth(tokens, self.pass_tokens)
        by_size = self.of_size / float(size**self.size_power)
        return self.floor + by_size + self.of_tokens / float(read**self.tokens_power)

    def tokens_for(self, parameters: float, tables: float, loss: float) -> float:
        """The fewest tokens that reach a loss; inf if more than ``MOST_TOKENS`` are needed."""
        low, high = 1.0, MOST_TOKENS
        if self.loss(parameters, tables, high) > loss:
            return inf
        for _ in range(100):
            middle = sqrt(low * high)
            if self.loss(parameters, tables, middle) > loss:
                low = middle
            else:
                high = middle
        return high


def worth(tokens: float, pass_tokens: float) -> float:
    """Tokens that a text read once would need for the same (Muennighoff et al. 2023, eq. 5)."""
    again = max(0.0, tokens / pass_tokens - 1)
    return (
        tokens if not again else pass_tokens * (1 + PASSES_WORTH * (1 - exp(-again / PASSES_WORTH)))
    )


def fit(
    rungs: Sequence[Rung], pass_tokens: float, powers: Powers = POWERS, *, with_tables: bool
) -> Law:
    """The law nearest to the rungs, by the Huber loss of relative errors."""
    sizes = np.array([r.parameters - (0 if with_tables else r.tables) for r in rungs], float)
    tokens = np.array([worth(rung.tokens, pass_tokens) for rung in rungs])
    losses = np.array([rung.loss for rung in rungs])
    terms = np.stack([np.ones(len(rungs)), sizes ** -powers[0], tokens ** -powers[1]], -1)
    # Factors are never negative: all subsets of the terms are tried.
    subsets = (subset for size in (3, 2, 1) for subset in combinations(range(3), size))
    fits = (_factors(terms / losses[:, None], subset) for subset in subsets)
    _, factors = min((made for made in fits if (made[1] >= 0).all()), key=itemgetter(0))
    floor, of_size, of_tokens = map(float, factors)
    return Law(floor, of_size, powers[0], of_tokens, powers[1], with_tables, pass_tokens)


def _factors(terms: Array, subset: tuple[int, ...]) -> tuple[float, Array]:
    """The error of the factors of some terms (n, 3) whose sums are nearest to 1, and the factors.

    Other terms have a factor of 0.
    """
    used, weights, factors = terms[:, subset], np.ones(len(terms)), np.zeros(3)
    for _ in range(ROUNDS):
        weighted = used * weights[:, None]
        square = weighted.T @ used + RIDGE * np.eye(len(subset))
        factors[[*subset]] = np.linalg.solve(square, weighted.sum(0))
        away = np.abs(terms @ factors - 1)
        weights = HUBER / np.maximum(away, HUBER)
    errors = np.where(away < HUBER, away**2 / 2, HUBER * (away - HUBER / 2))
    return float(errors.sum()), factors
