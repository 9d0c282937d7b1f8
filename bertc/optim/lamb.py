"""LAMB's update rule, by torch's foreach operations on lists of tensors."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import accumulate

import torch
from torch import Tensor

from bertc.distributed.engines import local_shard
from bertc.ir.learning.optimizer import Lamb

Moments = dict[str, Tensor]

Add = Callable[[Tensor], None]
"""Replaces a vector by its sum over the processes (all-reduce)."""


class ForeachRule:
    """LAMB: Adam's update scaled to the norm of each tensor (You et al. 2020, alg. 2).

    As released for ALBERT (lamb_optimizer.py), the ratio is |w| / |update| where both are positive,
    else 1, without limits; exempt tensors take the plain update.

    A CPU's compiler gets one tensor at a time, of any size: all tensors of 24 layers as one graph
    would take it minutes. A GPU needs none, its kernels take lists.
    """

    def __init__(
        self,
        optimizer: Lamb,
        exempt: set[str],
        parameters: Mapping[str, Tensor],
        moments: Moments,
        updates: int,
        compiled: bool,
        add: Add | None = None,
    ) -> None:
        self._add = add
        self._rule, self._updates = optimizer, updates
        self._moments = moments
        undecayed = exempt if optimizer.decay_exempt == "norms-and-biases" else set()
        self._decayed = set(parameters) - undecayed if optimizer.decay else set()
        unadapted = exempt if optimizer.adapt_exempt == "norms-and-biases" else set()
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
        scalars = torch.tensor([rate, corrections[0], math.sqrt(corrections[1])])
        scalars = scalars.to(self._device, non_blocking=True)
        active = [name for name, p in self._parameters.items() if p.grad is not None]
        for names in [[name] for name in active] if self._per_tensor else [active]:
            weights = [self._parameters[name] for name in names]
            groups = Counter(map(self._group_of, zip(names, weights, strict=True)))
            self._move(
                self._rule,
                [local_shard(p).view(-1) for p in weights],
                [local_shard(p.grad).view(-1) for p in weights],
                [local_shard(self._moments[f"m.{name}"]).view(-1) for name in names],
                [local_shard(self._moments[f"v.{name}"]).view(-1) for name in names],
                [i for i, name in enumerate(names) if name in self._decayed],
                list(groups.values()),
                sum(name in self._adapted for name in names),
                scalars,
                self._add,
            )


def _move(
    rule: Lamb,
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
    of the groups, are scaled by their ratios. ``scalars``: learning rate, and the bias corrections
    of m and of sqrt(v).
    """
    rate, first_correction, second_correction = scalars.unbind()
    beta1, beta2 = rule.betas
    torch._foreach_lerp_(first, gradients, 1 - beta1)
    torch._foreach_mul_(second, beta2)
    torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)

    divisors = torch._foreach_sqrt(second)
    torch._foreach_div_(divisors, second_correction)
    torch._foreach_add_(divisors, rule.eps)
    torch._foreach_mul_(divisors, first_correction)
    # A list times a list of numbers on the device would be a kernel for each tensor.
    begins = [0, *accumulate(groups)][:-1]
    stacks = [
        first[at].new_empty(count, *first[at].shape)
        for at, count in zip(begins, groups, strict=True)
    ]
    updates = [stack[i] for stack, count in zip(stacks, groups, strict=True) for i in range(count)]
    torch._foreach_copy_(updates, first)
    torch._foreach_div_(updates, divisors)
    if decayed:
        shrinking = [updates[i] for i in decayed]
        torch._foreach_add_(shrinking, [weights[i] for i in decayed], alpha=rule.decay)
    if adapted:
        ratios = _ratios(weights[:adapted], updates[:adapted], add)
        for at, stack in zip(begins, stacks, strict=True):
            if at < adapted:
                stack.mul_(ratios[at : at + len(stack), None])
    torch._foreach_mul_(updates, rate)
    torch._foreach_sub_(weights, updates)


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
