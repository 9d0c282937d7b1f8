"""Rules that work tensor by tensor: LAMB and StableAdamW scale each update, Muon its values."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import accumulate

import torch
from torch import Tensor

from bertc.ir.learning.optimizer import MUON_AT_ONCE, Lamb, Muon, StableAdam
from bertc.learn.step.engines import local_shard, shard_like, whole

Moments = dict[str, Tensor]

Add = Callable[[Tensor], None]
"""Replaces a vector by its sum over the processes (all-reduce)."""


class ForeachRule:
    """LAMB and StableAdamW: Adam's update, times a number of each tensor.

    LAMB's is |w| / |update| where both are positive, else 1, without limits; ``unadapted`` tensors
    take the plain update (You et al. 2020, alg. 2; ALBERT, lamb_optimizer.py). StableAdamW's is
    1 / max(1, RMS of g / max(sqrt(v), eps)), of all tensors (Wortsman et al. 2023, alg. 2).

    A CPU's compiler gets one tensor at a time, of any size: all tensors of 24 layers as one graph
    would take it minutes. A GPU needs none, its kernels take lists.
    """

    def __init__(
        self,
        optimizer: Lamb | StableAdam,
        undecayed: set[str],
        unadapted: set[str],
        parameters: Mapping[str, Tensor],
        moments: Moments,
        updates: int,
        compiled: bool,
        add: Add | None = None,
    ) -> None:
        self._add = add
        self._rule, self._updates = optimizer, updates
        self._moments = moments
        self._decayed = set(parameters) - undecayed if optimizer.decay else set()
        self._adapted = set(parameters) - unadapted
        # Those of one shape follow each other, and have their updates in one tensor.
        self._parameters = dict(sorted(parameters.items(), key=self._group_of))
        self._device = next(iter(parameters.values())).device
        self._per_tensor = compiled and self._device.type == "cpu"
        self._move = _move
        if self._per_tensor:
            self._move = torch.compile(_move, fullgraph=True, dynamic=True)

    takes_guard = False

    def _group_of(self, named: tuple[str, Tensor]) -> tuple[bool, tuple[int, ...]]:
        name, weight = named
        return name not in self._adapted, tuple(weight.shape)

    @torch.no_grad()
    def update(self, rate: float, guard: object = None) -> None:
        """Update every weight that has a gradient."""
        assert guard is None, "its operations cannot be skipped on the device"
        self._updates += 1
        (beta1, beta2), corrections = self._rule.betas, (1.0, 1.0)
        if self._rule.bias_correction:
            corrections = (1 - beta1**self._updates, 1 - beta2**self._updates)
        # Tensors, because a number that changes with each step would be compiled anew.
        active = [name for name, p in self._parameters.items() if p.grad is not None]
        dtype = self._parameters[active[0]].dtype if active else None
        numbers = [rate, corrections[0], math.sqrt(corrections[1])]
        for names in [[name] for name in active] if self._per_tensor else [active]:
            weights = [self._parameters[name] for name in names]
            groups = Counter(map(self._group_of, zip(names, weights, strict=True)))
            sizes = [float(local_shard(p).numel()) for p in weights]
            scalars = torch.tensor([*numbers, *sizes], dtype=dtype)
            self._move(
                self._rule, [local_shard(p).view(-1) for p in weights],
                [local_shard(p.grad).view(-1) for p in weights],
                [local_shard(self._moments[f"m.{name}"]).view(-1) for name in names],
                [local_shard(self._moments[f"v.{name}"]).view(-1) for name in names],
                [i for i, name in enumerate(names) if name in self._decayed], list(groups.values()),
                sum(name in self._adapted for name in names),
                scalars.to(self._device, non_blocking=True), self._add,
            )  # fmt: skip


def _move(
    rule: Lamb | StableAdam,
    weights: list[Tensor],
    gradients: list[Tensor],
    first: list[Tensor],
    second: list[Tensor],
    decayed: list[int],
    groups: list[int],
    adapted: int,
    scalars: Tensor,
    add: Add | None,
) -> None:
    """Update moments and weights in place.

    ``groups``: how many tensors of one size follow each other; the first ``adapted`` tensors, some
    of the groups, are scaled. ``scalars``: learning rate, the bias corrections of m and of sqrt(v),
    and the numbers of elements of the tensors, as this process has them.
    """
    (rate, first_correction, second_correction), sizes = scalars[:3].unbind(), scalars[3:]
    beta1, beta2 = rule.betas
    torch._foreach_lerp_(first, gradients, 1 - beta1)
    torch._foreach_mul_(second, beta2)
    torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)

    # A list times a list of numbers on the device would be a kernel for each tensor.
    begins = [0, *accumulate(groups)][:-1]
    stacks = [
        first[begin].new_empty(count, *first[begin].shape)
        for begin, count in zip(begins, groups, strict=True)
    ]
    updates = [stack[i] for stack, count in zip(stacks, groups, strict=True) for i in range(count)]
    divisors = list(torch._foreach_sqrt(second))
    torch._foreach_div_(divisors, second_correction)
    if isinstance(rule, StableAdam):
        factors = _caution(gradients, divisors, updates, sizes, rule.eps, add)
    torch._foreach_add_(divisors, rule.eps)
    torch._foreach_mul_(divisors, first_correction)
    torch._foreach_copy_(updates, first)
    torch._foreach_div_(updates, divisors)
    if decayed:
        shrinking = [updates[i] for i in decayed]
        torch._foreach_add_(shrinking, [weights[i] for i in decayed], alpha=rule.decay_by_rate)
    if isinstance(rule, Lamb) and adapted:
        factors = _ratios(weights[:adapted], updates[:adapted], add)
    for begin, stack in zip(begins, stacks, strict=True):
        if begin < adapted:
            stack.mul_(factors[begin : begin + len(stack), None])
    torch._foreach_mul_(updates, rate)
    torch._foreach_sub_(weights, updates)


def _caution(
    gradients: list[Tensor],
    deviations: list[Tensor],
    space: list[Tensor],
    sizes: Tensor,
    eps: float,
    add: Add | None,
) -> Tensor:
    """1 / max(1, RMS of g / max(sqrt(v), eps)) of each of n tensors; (n,) on the device.

    ``deviations``: sqrt(v). ``space``: n tensors that are overwritten. ``sizes`` (n,): numbers of
    elements here.
    """
    torch._foreach_copy_(space, deviations)
    torch._foreach_clamp_min_(space, eps)
    torch._foreach_reciprocal_(space)
    torch._foreach_mul_(space, gradients)
    squares = torch.stack(torch._foreach_norm(space)).square()
    if add is not None:  # shards: their squares and sizes add up
        sums = torch.cat([squares, sizes])
        add(sums)
        squares, sizes = sums.chunk(2)
    return (squares / sizes).sqrt().clamp(min=1).reciprocal()


def _ratios(weights: list[Tensor], updates: list[Tensor], add: Add | None) -> Tensor:
    """|w| / |update| of each of n tensors if both are positive, else 1; (n,) on the device."""
    norms = torch.stack(torch._foreach_norm(weights + updates))
    if add is not None:  # norms of shards: their squares add up
        norms = norms.square()
        add(norms)
        norms = norms.sqrt()
    weight_norms, update_norms = norms.chunk(2)
    usable = (weight_norms > 0) & (update_norms > 0)
    return torch.where(usable, weight_norms / update_norms, 1.0)


QUINTIC = (3.4445, -4.7750, 2.0315)
"""Factors of X, (X X^T) X and (X X^T)^2 X in an iteration (KellerJordan/Muon, muon.py)."""
SMALLEST_NORM = 1e-7


class MuonRule:
    """The momentum of matrices, made orthogonal; ``adam`` updates all other weights at a rate.

    The bits are those of torch.optim.Muon where products are in bf16. Matrices of one shape are
    multiplied together; of sharded ones each process gathers the whole, one after the other.
    """

    takes_guard = False

    def __init__(
        self,
        optimizer: Muon,
        matrices: Mapping[str, Tensor],
        moments: Moments,
        adam: Callable[[float], None],
        dtype: torch.dtype,
    ) -> None:
        self._rule, self._adam, self._dtype = optimizer, adam, dtype
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
        self._adam(rate * self._share)

    def _move(self, group: list[tuple[Tensor, Tensor]], rate: float) -> None:
        """Update matrices of one shape, each with its momentum."""
        rule = self._rule
        steps = orthogonal(torch.stack([self._ahead(*pair) for pair in group]), rule)
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


def orthogonal(matrices: Tensor, rule: Muon) -> Tensor:
    """Matrices (n, rows, columns) with singular values near 1, by Newton-Schulz iterations."""
    linear, cubic, quintic = QUINTIC
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    norms = torch.stack([matrix.norm() for matrix in x])
    x = x / norms.clamp(min=SMALLEST_NORM)[:, None, None]  # the largest singular value is at most 1
    if rule.by_gram(*x.shape[1:]):
        x = _factor(x @ x.mT, rule.ns_steps) @ x
    else:
        for _ in range(rule.ns_steps):
            gram = x @ x.mT
            square = torch.baddbmm(gram, gram, gram, beta=cubic, alpha=quintic)
            x = torch.baddbmm(x, square, x, beta=linear)
    return x.mT if is_tall else x


def _factor(gram: Tensor, iterations: int) -> Tensor:
    """The factor of X after the iterations, from X X^T (n, rows, rows), which follows it."""
    linear, cubic, quintic = QUINTIC
    product = None
    for left in range(iterations)[::-1]:
        factor = torch.baddbmm(gram, gram, gram, beta=cubic, alpha=quintic)
        factor.diagonal(dim1=1, dim2=2).add_(linear)
        product = factor if product is None else factor @ product
        gram = factor @ gram @ factor if left else gram
    assert product is not None, "there is an iteration at least"
    return product
