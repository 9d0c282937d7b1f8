"""Muon: updates of matrices with singular values near 1."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bertc.distributed.engines import local_shard, shard_like, whole
from bertc.ir.learning.optimizer import Muon
from bertc.optim.by_tensor import Moments

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Factors of X, (X X^T) X and (X X^T)^2 X in an iteration (KellerJordan/Muon, muon.py)."""
SMALLEST_NORM = 1e-7


class MuonRule:
    """The momentum of matrices, made orthogonal; ``others`` updates all other weights at a rate.

    The bits are those of torch.optim.Muon. Of sharded matrices each process gathers the whole, one
    after the other.
    """

    takes_guard = False

    def __init__(
        self,
        optimizer: Muon,
        matrices: Mapping[str, Tensor],
        moments: Moments,
        others: Callable[[float], None],
    ) -> None:
        self._rule, self._others = optimizer, others
        self._matrices = [(matrix, moments[f"m.{name}"]) for name, matrix in matrices.items()]
        self._share = optimizer.adamw_lr / optimizer.lr if optimizer.adamw_lr else 1.0

    @torch.no_grad()
    def update(self, rate: float, guard: object = None) -> None:
        """Update every weight that has a gradient."""
        assert guard is None, "its operations cannot be skipped on the device"
        for matrix, momentum in self._matrices:
            if matrix.grad is not None:
                self._move(matrix, matrix.grad, momentum, rate)
        self._others(rate * self._share)

    def _move(self, matrix: Tensor, gradient: Tensor, momentum: Tensor, rate: float) -> None:
        rule = self._rule
        momentum.lerp_(gradient, 1 - rule.momentum)
        ahead = gradient.lerp(momentum, rule.momentum) if rule.nesterov else momentum
        step = shard_like(orthogonal(whole(ahead), rule.ns_steps), matrix)
        weights = local_shard(matrix)
        weights.mul_(1 - rate * rule.decay)
        weights.add_(local_shard(step), alpha=-rate * self._factor(*matrix.shape))

    def _factor(self, rows: int, columns: int) -> float:
        """The factor on the rate of a matrix."""
        if self._rule.adjust == "original":
            return math.sqrt(max(1, rows / columns))
        return 0.2 * math.sqrt(max(rows, columns))


def orthogonal(matrix: Tensor, iterations: int) -> Tensor:
    """The matrix with its singular values brought near 1, in bf16, by Newton-Schulz iterations."""
    linear, cubic, quintic = QUINTIC
    x = matrix.bfloat16()
    x = x.T if matrix.shape[0] > matrix.shape[1] else x
    x = x / x.norm().clamp(min=SMALLEST_NORM)  # the largest singular value is at most 1
    for _ in range(iterations):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=cubic, alpha=quintic), x, beta=linear)
    return x.T if matrix.shape[0] > matrix.shape[1] else x
