"""Update rules: AdamW on torch's fused kernel, and LAMB.

Both keep two moments for each weight, in a flat dict of tensors ``m.<weight>`` and
``v.<weight>``. A rule is made anew at the start of a stage or after loading, on the same moments.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol, assert_never

import torch
from torch import Tensor

from bertc.ir.base import Weight
from bertc.ir.optimizer import Adam, Lamb, Optimizer

Moments = dict[str, Tensor]


class Rule(Protocol):
    """Moves weights along their gradients."""

    def update(self, rate: float) -> None:
        """One update of every weight that has a gradient; moments change in place."""


def zero_moments(parameters: Mapping[str, Tensor]) -> Moments:
    """Moments before the first update, in the shape, type and place of the weights."""
    return {
        f"{moment}.{name}": torch.zeros_like(weight, requires_grad=False)
        for moment in ("m", "v")
        for name, weight in parameters.items()
    }


def make_rule(
    optimizer: Optimizer,
    table: tuple[Weight, ...],
    parameters: Mapping[str, Tensor],
    moments: Moments,
    updates: int,
) -> Rule:
    """The rule of a stage, ``updates`` updates into the run."""
    exempt = {weight.name for weight in table if weight.role in ("bias", "norm")}
    match optimizer:
        case Adam():
            return AdamRule(optimizer, exempt, parameters, moments, updates)
        case Lamb():
            return LambRule(optimizer, exempt, parameters, moments, updates)
        case unreachable:
            assert_never(unreachable)


def gradient_norm(parameters: Mapping[str, Tensor]) -> Tensor:
    """The 2-norm of all gradients as one vector, 0-d, left on the device."""
    gradients = [p.grad for p in parameters.values() if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients, foreach=True)


def clip(parameters: Mapping[str, Tensor], norm: float, limit: float) -> None:
    """Scale all gradients so that their norm, known to be ``norm``, is at most ``limit``.

    A limit of 0 switches clipping off.
    """
    if limit and norm > limit:
        gradients = [p.grad for p in parameters.values() if p.grad is not None]
        torch._foreach_mul_(gradients, limit / norm)


class AdamRule:
    """Adam with decoupled decay (Loshchilov and Hutter 2019), on ``torch.optim.AdamW(fused=True)``.

    The correction of a moment divides by 1 - beta^t. Without bias correction the kernel's
    t is held at infinity, where the divisor is exactly 1: what is left is the update of BERT's
    AdamWeightDecayOptimizer (optimization.py).
    """

    def __init__(
        self,
        optimizer: Adam,
        exempt: set[str],
        parameters: Mapping[str, Tensor],
        moments: Moments,
        updates: int,
    ) -> None:
        spared = exempt if optimizer.decay_exempt == "norms-and-biases" else set()
        groups: list[dict[str, Any]] = [
            {"params": [p for name, p in parameters.items() if name not in spared]},
            {"params": [p for name, p in parameters.items() if name in spared], "weight_decay": 0},
        ]
        self._torch = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            betas=optimizer.betas,
            eps=optimizer.eps,
            weight_decay=optimizer.decay,
            fused=True,
        )
        count = float(updates) if optimizer.bias_correction else math.inf
        for name, parameter in parameters.items():
            self._torch.state[parameter] = {
                "step": torch.tensor(count, device=parameter.device),
                "exp_avg": moments[f"m.{name}"],
                "exp_avg_sq": moments[f"v.{name}"],
            }

    def update(self, rate: float) -> None:
        """One update of every weight that has a gradient."""
        for group in self._torch.param_groups:
            group["lr"] = rate
        self._torch.step()


class LambRule:
    """Adam's update, each tensor's scaled to the norm of its weights (You et al. 2020, alg. 2).

    As released for ALBERT (lamb_optimizer.py): the ratio is |w| / |update| where both are
    positive, else 1, without limits; exempt tensors take the plain update.
    """

    def __init__(
        self,
        optimizer: Lamb,
        exempt: set[str],
        parameters: Mapping[str, Tensor],
        moments: Moments,
        updates: int,
    ) -> None:
        self._rule, self._updates = optimizer, updates
        spared = exempt if optimizer.decay_exempt == "norms-and-biases" else set()
        plain = exempt if optimizer.adapt_exempt == "norms-and-biases" else set()
        self._weights = [
            (
                parameter,
                moments[f"m.{name}"],
                moments[f"v.{name}"],
                0.0 if name in spared else optimizer.decay,
                name not in plain,
            )
            for name, parameter in parameters.items()
        ]

    @torch.no_grad()
    def update(self, rate: float) -> None:
        """One update of every weight that has a gradient."""
        self._updates += 1
        (beta1, beta2), active = self._rule.betas, []
        gradients, first, second = [], [], []
        for weight in self._weights:
            if (gradient := weight[0].grad) is not None:
                active.append(weight)
                gradients.append(gradient)
                first.append(weight[1])
                second.append(weight[2])
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)

        corrections = (1.0, 1.0)
        if self._rule.bias_correction:
            corrections = (1 - beta1**self._updates, 1 - beta2**self._updates)
        divisors = torch._foreach_sqrt(second)
        torch._foreach_div_(divisors, math.sqrt(corrections[1]))
        torch._foreach_add_(divisors, self._rule.eps)
        updates = list(torch._foreach_div(first, divisors))
        torch._foreach_div_(updates, corrections[0])
        decayed = [i for i, weight in enumerate(active) if weight[3]]
        if decayed:
            torch._foreach_add_(
                [updates[i] for i in decayed],
                [active[i][0] for i in decayed],
                alpha=self._rule.decay,
            )

        adapted = [i for i, weight in enumerate(active) if weight[4]]
        if adapted:
            moved = [updates[i] for i in adapted]
            ratios = _ratios([active[i][0] for i in adapted], moved)
            torch._foreach_mul_(moved, ratios)
        torch._foreach_add_([weight[0] for weight in active], updates, alpha=-rate)


def _ratios(weights: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
    """|w| / |update| of each tensor where both are positive, else 1; 0-d, left on the device."""
    weight_norms = torch.stack(torch._foreach_norm(weights))
    update_norms = torch.stack(torch._foreach_norm(updates))
    usable = (weight_norms > 0) & (update_norms > 0)
    return list(torch.where(usable, weight_norms / update_norms, 1.0).unbind())
