"""An update rule as operations on lists of tensors: LAMB, and Adam where the step is compiled."""

import math
from collections.abc import Callable, Mapping
from typing import assert_never

import torch
from torch import Tensor

from bertc.ir.optimizer import Adam, Lamb, Optimizer
from bertc.train.engines import local

Moments = dict[str, Tensor]

Add = Callable[[Tensor], None]
"""Replaces a vector by its sum over processes."""


class ForeachRule:
    """Adam's update, for LAMB scaled to the norm of each tensor (You et al. 2020, alg. 2).

    As released for ALBERT (lamb_optimizer.py), the ratio is |w| / |update| where both are positive,
    else 1, without limits; exempt tensors take the plain update.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        exempt: set[str],
        parameters: Mapping[str, Tensor],
        moments: Moments,
        updates: int,
        compiled: bool,
        add: Add | None = None,
    ) -> None:
        self._add = add
        self._rule, self._updates = optimizer, updates
        self._parameters, self._moments = dict(parameters), moments
        spared = exempt if optimizer.decay_exempt == "norms-and-biases" else set()
        self._decayed = set(parameters) - spared if optimizer.decay else set()
        self._adapted = set(parameters) - _plain(optimizer, exempt, set(parameters))
        self._move = torch.compile(_move, fullgraph=True, dynamic=False) if compiled else _move

    @torch.no_grad()
    def update(self, rate: float) -> None:
        """One update of every weight that has a gradient."""
        self._updates += 1
        (beta1, beta2), corrections = self._rule.betas, (1.0, 1.0)
        if self._rule.bias_correction:
            corrections = (1 - beta1**self._updates, 1 - beta2**self._updates)
        active = {name: p for name, p in self._parameters.items() if p.grad is not None}
        # Numbers that change from step to step go in as tensors: nothing is compiled anew for them.
        scalars = torch.tensor([rate, corrections[0], math.sqrt(corrections[1])])
        self._move(
            self._rule,
            local(active.values()),
            local(p.grad for p in active.values() if p.grad is not None),
            local(self._moments[f"m.{name}"] for name in active),
            local(self._moments[f"v.{name}"] for name in active),
            [i for i, name in enumerate(active) if name in self._decayed],
            [i for i, name in enumerate(active) if name in self._adapted],
            scalars.to(next(iter(active.values())).device, non_blocking=True),
            self._add,
        )


def _plain(optimizer: Optimizer, exempt: set[str], names: set[str]) -> set[str]:
    """The tensors whose update is not scaled to their norm."""
    match optimizer:
        case Adam():
            return names
        case Lamb():
            return exempt if optimizer.adapt_exempt == "norms-and-biases" else set()
        case unreachable:
            assert_never(unreachable)


def _move(
    rule: Optimizer,
    weights: list[Tensor],
    gradients: list[Tensor],
    first: list[Tensor],
    second: list[Tensor],
    decayed: list[int],
    adapted: list[int],
    scalars: Tensor,
    add: Add | None,
) -> None:
    """Change moments and weights in place. ``scalars``: rate, and what corrects m and sqrt(v)."""
    rate, first_correction, second_correction = scalars.unbind()
    beta1, beta2 = rule.betas
    torch._foreach_lerp_(first, gradients, 1 - beta1)
    torch._foreach_mul_(second, beta2)
    torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)

    divisors = torch._foreach_sqrt(second)
    torch._foreach_div_(divisors, second_correction)
    torch._foreach_add_(divisors, rule.eps)
    torch._foreach_mul_(divisors, first_correction)
    updates = list(torch._foreach_div(first, divisors))
    if decayed:
        shrinking = [updates[i] for i in decayed]
        torch._foreach_add_(shrinking, [weights[i] for i in decayed], alpha=rule.decay)
    if adapted:
        scaled = [updates[i] for i in adapted]
        torch._foreach_mul_(scaled, _ratios([weights[i] for i in adapted], scaled, add))
    torch._foreach_mul_(updates, rate)
    torch._foreach_sub_(weights, updates)


def _ratios(weights: list[Tensor], updates: list[Tensor], add: Add | None) -> list[Tensor]:
    """|w| / |update| of each tensor where both are positive, else 1; 0-d, left on the device."""
    norms = torch.stack(torch._foreach_norm(weights + updates))
    if add is not None:  # of the parts: their squares add up
        norms = norms.square()
        add(norms)
        norms = norms.sqrt()
    weight_norms, update_norms = norms.chunk(2)
    usable = (weight_norms > 0) & (update_norms > 0)
    return list(torch.where(usable, weight_norms / update_norms, 1.0).unbind())
