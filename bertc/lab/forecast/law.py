"""A law of losses, E + A / N^a + B / D^b (Hoffmann et al. 2022).

N are parameters, D tokens. For exponents a and b it is linear in E, A and B, which are never
negative: all exponents of a grid are tried, then finer ones around the best. Loads no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, inf, sqrt

import numpy as np
from numpy.typing import NDArray

PARAMETERS = 5
"""Numbers of a law; it needs as many rungs or more."""
HUBER = 1e-3
"""Relative error beyond which errors count by size, not by square (Hoffmann et al. 2022, D)."""
POWERS = (0.05, 1.5)
"""The least and greatest exponent."""
LEVELS, FINER = 13, 4
"""Values of each exponent that are tried, and how often finer ones are."""
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


def fit(rungs: Sequence[Rung], pass_tokens: float, *, with_tables: bool) -> Law:
    """The law nearest to the rungs, by the Huber loss of relative errors."""
    sizes = np.array([r.parameters - (0 if with_tables else r.tables) for r in rungs], float)
    tokens = np.array([worth(rung.tokens, pass_tokens) for rung in rungs])
    losses = np.array([rung.loss for rung in rungs])
    middle, width = np.log(POWERS).mean(), np.log(POWERS[1] / POWERS[0]) / 2
    center = np.array([middle, middle])
    for _ in range(FINER):
        steps = np.linspace(-width, width, LEVELS)
        powers = np.exp(center + np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2))
        a, b = powers[:, :1], powers[:, 1:]
        terms = np.stack([np.ones((len(powers), len(rungs))), sizes**-a, tokens**-b], -1)
        errors, factors = _factors(terms / losses[:, None])
        best = int(errors.argmin())
        center, width = np.log(powers[best]), steps[1] - steps[0]
    floor, of_size, of_tokens = map(float, factors[best])
    a_best, b_best = map(float, powers[best])
    return Law(floor, of_size, a_best, of_tokens, b_best, with_tables, pass_tokens)


def _factors(terms: Array) -> tuple[Array, Array]:
    """Errors (g), and factors (g, 3) whose sums of terms (g, n, 3) are nearest to 1.

    Factors are never negative: all subsets of the terms are tried.
    """
    grid = len(terms)
    errors, factors = np.full(grid, inf), np.zeros((grid, 3))
    for chosen in (c for many in (3, 2, 1) for c in combinations(range(3), many)):
        used, weights = terms[..., chosen], np.ones(terms.shape[:2])
        for _ in range(ROUNDS):
            weighted = used * weights[..., None]
            square = weighted.transpose(0, 2, 1) @ used + RIDGE * np.eye(len(chosen))
            made = np.linalg.solve(square, weighted.sum(1)[..., None])[..., 0]
            away = np.abs((used @ made[..., None])[..., 0] - 1)
            weights = HUBER / np.maximum(away, HUBER)
        error = np.where(away < HUBER, away**2 / 2, HUBER * (away - HUBER / 2)).sum(1)
        better = (error < errors) & (made >= 0).all(1)
        errors[better] = error[better]
        factors[better] = 0
        factors[np.ix_(better, chosen)] = made[better]
    return errors, factors
