"""Update rules, and what surrounds an update: the norm of the gradients, and clipping.

Both keep two moments for each weight, in a flat dict of tensors ``m.<weight>`` and
``v.<weight>``. A rule is made anew at the start of a stage or after loading, on the same moments.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol, assert_never

import torch
from torch import Tensor

from bertc.ir.base import Weight
from bertc.ir.encoder import layer_of
from bertc.ir.optimizer import Adam, Lamb, Optimizer
from bertc.train.engines import local
from bertc.train.foreach import Add, ForeachRule, Moments


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
    compiled: bool = False,
    add: Add | None = None,
) -> Rule:
    """The rule of a stage, ``updates`` updates into the run.

    Where weights lie in parts, ``add`` sums a vector over the processes that hold them.
    """
    exempt = {weight.name for weight in table if weight.role in ("bias", "norm")}
    match optimizer:
        case Adam():
            # Its kernel does the whole of it in one pass, so there is nothing to compile.
            return AdamRule(optimizer, exempt, parameters, moments, updates)
        case Lamb():
            return ForeachRule(optimizer, exempt, parameters, moments, updates, compiled, add)
        case unreachable:
            assert_never(unreachable)


def gradient_norm(parameters: Mapping[str, Tensor]) -> Tensor:
    """The 2-norm of all gradients held here as one vector, 0-d, left on the device."""
    gradients = local(p.grad for p in parameters.values() if p.grad is not None)
    return torch.nn.utils.get_total_norm(gradients, foreach=True)


def clip(parameters: Mapping[str, Tensor], norm: float, limit: float) -> None:
    """Scale all gradients so that their norm, known to be ``norm``, is at most ``limit``.

    A limit of 0 switches clipping off.
    """
    if limit and norm > limit:
        gradients = local(p.grad for p in parameters.values() if p.grad is not None)
        torch._foreach_mul_(gradients, limit / norm)


def _below(layer: int | None, depth: int) -> int:
    """How far a layer lies below the heads (ELECTRA optimization.py, _get_layer_lrs)."""
    return 0 if layer is None else depth - layer


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
        layers = {name: layer_of(name) for name in parameters}
        top = max((layer for layer in layers.values() if layer is not None), default=0)
        groups: dict[tuple[bool, float, float], dict[str, Any]] = {}
        for name, parameter in parameters.items():
            share = optimizer.layer_decay ** _below(layers[name], top + 2)
            # m / (sqrt(v) + eps) of a gradient times c is that of the gradient with eps / c.
            eps = optimizer.eps / optimizer.gradient_decay ** _below(layers[name] or top, top)
            decay = 0.0 if name in spared else optimizer.decay
            group = {"params": [], "weight_decay": decay, "share": share, "eps": eps}
            groups.setdefault((name in spared, share, eps), group)["params"].append(parameter)
        self._torch = torch.optim.AdamW(
            list(groups.values()),
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
            group["lr"] = rate * group["share"]
        self._torch.step()
