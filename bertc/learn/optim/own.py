"""An update rule of the user's own: a class that makes the change of a weight from its gradient."""

import inspect

import torch

from bertc.base.diagnostics import DataError
from bertc.base.own_code import make
from bertc.ir.learning.optimizer import OwnRule
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.step.engines import local_shard, shard_like, whole


class UserRule:
    """Calls ``update`` on one weight after the other; a sharded one is gathered for that."""

    takes_guard = False

    def __init__(
        self, rule: OwnRule, undecayed: set[str], weights: Moments, moments: Moments, updates: int
    ) -> None:
        self._updates, self._update, self._state = updates, make(rule).update, rule.state
        self._code = rule.code
        self._reads = inspect.signature(self._update).parameters
        self._weights = [
            (name, 0.0 if name in undecayed else rule.decay, weight,
             [moments[f"{moment}.{name}"] for moment in rule.state])
            for name, weight in weights.items()
        ]  # fmt: skip

    @torch.no_grad()
    def update(self, rate: float, guard: object = None) -> None:
        """Update every weight that has a gradient."""
        assert guard is None, "its operations cannot be skipped on the device"
        self._updates += 1
        for name, decay, weight, moments in self._weights:
            if weight.grad is None:
                continue
            changed = [weight, *moments]
            gathered = [*map(whole, changed)]
            values = {"gradient": whole(weight.grad), "step": self._updates}
            values |= zip(("weight", *self._state), gathered, strict=True)
            change = self._update(**{argument: values[argument] for argument in self._reads})
            if not change.isfinite().all():
                message = (
                    f"update {self._updates}: {self._code} changes {name} by what is not finite"
                )
                raise DataError(
                    message, "correct it, then go on from the last checkpoint (--resume)"
                )
            gathered[0].mul_(1 - rate * decay).sub_(change, alpha=rate)
            for tensor, new in zip(changed, gathered, strict=True):
                if new is not tensor:
                    local_shard(tensor).copy_(local_shard(shard_like(new, tensor)))
