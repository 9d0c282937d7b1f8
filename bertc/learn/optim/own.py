"""An update rule of the user's own: a class that makes the change of a weight from its gradient."""

import inspect
from collections import Counter, defaultdict
from typing import Any

import torch
from torch import Tensor

from bertc.base.own_code import make
from bertc.ir.learning.optimizer import OWN_AT_ONCE, OwnRule
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.step.engines import local_shard, shard_like, whole


class UserRule:
    """Calls ``update`` on flat pieces of all weights where elements are updated alone.

    Else on whole tensors: of sharded ones each process gathers one after the other.
    """

    takes_guard = False

    def __init__(
        self, rule: OwnRule, undecayed: set[str], weights: Moments, moments: Moments, updates: int
    ) -> None:
        self._rule, self._updates, self._update = rule, updates, make(rule).update
        self._reads = inspect.signature(self._update).parameters
        self._weights = [
            (0.0 if name in undecayed else rule.decay, weight,
             [moments[f"{moment}.{name}"] for moment in rule.state])
            for name, weight in weights.items()
        ]  # fmt: skip

    @torch.no_grad()
    def update(self, rate: float, guard: object = None) -> None:
        """Update every weight that has a gradient."""
        assert guard is None, "its operations cannot be skipped on the device"
        self._updates += 1
        size = OWN_AT_ONCE["cuda" if self._weights[0][1].is_cuda else "cpu"]
        together, filled = defaultdict[Any, list[tuple[Tensor, ...]]](list), Counter[float]()
        for decay, weight, moments in self._weights:
            tensors = [weight, weight.grad, *moments]
            if weight.grad is not None and self._rule.by_tensor:
                gathered = tuple(map(whole, tensors))
                self._move([gathered], rate, decay)
                for tensor, new in zip(tensors, gathered, strict=True):
                    if new is not tensor:
                        local_shard(tensor).copy_(local_shard(shard_like(new, tensor)))
            elif weight.grad is not None:
                flat = (torch.split(local_shard(tensor).view(-1), size) for tensor in tensors)
                for piece in zip(*flat, strict=True):
                    together[decay, filled[decay] // size].append(piece)
                    filled[decay] += piece[0].numel()
        for (decay, _), pieces in together.items():
            self._move(pieces, rate, decay)

    def _move(self, pieces: list[tuple[Tensor, ...]], rate: float, decay: float) -> None:
        """Update weights, each with its gradient and moments, by one call."""
        columns, sizes = [*zip(*pieces, strict=True)], [piece[0].numel() for piece in pieces]
        weight, gradient, *moments = map(torch.cat, columns) if sizes[1:] else pieces[0]
        values = {"gradient": gradient, "weight": weight, "step": self._updates}
        values |= zip(self._rule.state, moments, strict=True)
        change = self._update(**{name: values[name] for name in self._reads})
        for column, moment in zip(columns[2:], moments, strict=True):
            if sizes[1:]:
                torch._foreach_copy_(column, torch.split(moment, sizes))
        torch._foreach_mul_(columns[0], 1 - rate * decay)
        changes = torch.split(change, sizes) if sizes[1:] else (change,)
        torch._foreach_add_(columns[0], changes, alpha=-rate)
