"""Muon: updates of matrices with singular values near 1."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bertc.ir.learning.optimizer import MUON_AT_ONCE, Muon
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.step.engines import local_shard, shard_like, whole

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Factors of X, (X X^T) X and (X X^T)^2 X in an iteration (KellerJordan/Muon, muon.py)."""
SMALLEST_NORM = 1e-7


class MuonRule:
    """The momentum of matrices, made orthogonal; ``others`` updates all other weights at a rate.

    The bits are those of torch.optim.Muon where products are in bf16. Matrices of one shape are
    multiplied together; of sharded ones each process gathers the whole, one after the other.
    """

    takes_guard = False

    def __init__(
        self,
        optimizer: Muon,
        matrices: Mapping[str, Tensor],
        moments: Moments,
        others: Callable[[float], None],
        dtype: torch.dtype,
    ) -> None:
        self._rule, self._others, self._dtype = optimizer, others, dtype
        self._matrices = [(matrix, moments[f"m.{name}"]) for name, matrix in matrices.items()]
        self._share = optimizer.adamw_lr / optimizer.lr if optimizer.adamw_lr else 1.0

    @torch.no_grad()
    def update(self, rate: float, guard: object = None) -> None:
        """Update every weight that has a gradient."""
        assert guard is None, "its operations cannot be skipped on the device"
        alike: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
        for matrix, momentum in self._matrices:
            if matrix.grad is not None:
                alike.setdefault(tuple(matrix.shape), []).append((matrix, momentum))
        for shape, group in alike.items():
            sharded = local_shard(group[0][0]) is not group[0][0]
            size = 1 if sharded else max(1, MUON_AT_ONCE // math.prod(shape))
            for first in range(0, len(group), size):
                self._move(group[first : first + size], rate)
        self._others(rate * self._share)

    def _move(self, group: list[tuple[Tensor, Tensor]], rate: float) -> None:
        """Update matrices of one shape, each with its momentum."""
        rule = self._rule
        steps = orthogonal(torch.stack([self._ahead(*pair) for pair in group]), rule.ns_steps)
        rows, columns = group[0][0].shape
        factor = 0.2 * math.sqrt(max(rows, columns))
        if rule.adjust == "original":
            factor = math.sqrt(max(1, rows / columns))
        for (matrix, _), step in zip(group, steps.unbind(), strict=True):
            weights = local_shard(matrix)
            weights.mul_(1 - rate * rule.decay)
            weights.add_(local_shard(shard_like(step, matrix)), alpha=-rate * factor)

    def _ahead(self, matrix: Tensor, momentum: Tensor) -> Tensor:
        """The momentum after its update, or a step ahead of it."""
        rule, gradient = self._rule, matrix.grad
        assert gradient is not None, "the group has those with gradients"
        momentum.lerp_(gradient, 1 - rule.momentum)
        ahead = gradient.lerp(momentum, rule.momentum) if rule.nesterov else momentum
        return whole(ahead).to(self._dtype)


def orthogonal(matrices: Tensor, iterations: int) -> Tensor:
    """Matrices (n, rows, columns) with singular values near 1, by Newton-Schulz iterations."""
    linear, cubic, quintic = QUINTIC
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    norms = torch.stack([matrix.norm() for matrix in x])
    x = x / norms.clamp(min=SMALLEST_NORM)[:, None, None]  # the largest singular value is at most 1
    for _ in range(iterations):
        gram = x @ x.mT
        square = torch.baddbmm(gram, gram, gram, beta=cubic, alpha=quintic)
        x = torch.baddbmm(x, square, x, beta=linear)
    return x.mT if is_tall else x
