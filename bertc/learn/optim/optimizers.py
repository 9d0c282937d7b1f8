"""Update rules, gradient norms and clipping.

A rule keeps moments for each weight, in a flat dict of tensors ``m.<weight>``. It is made anew at
the start of a stage or after loading, on the same moments.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.base.own_code import make
from bertc.ir.base import Weight
from bertc.ir.learning import optimizer as rules
from bertc.ir.learning.optimizer import Adam, Optimizer, OwnRule, moments_of
from bertc.ir.network.body_node import layer_of
from bertc.learn.optim.by_tensor import Add, ForeachRule, Moments, MuonRule
from bertc.learn.step.engines import local_shard, local_shards, shard_like, whole
from bertc.model.body import profile_as


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


class Guard(NamedTuple):
    """The divisor for clipping and a test for finite numbers, on the device; 0-d fp32 tensors."""

    divisor: Tensor | None  # what clips the gradients; None where nothing does
    bad: Tensor  # 1 where a loss or the gradient is not finite, else 0


class UpdateRule(Protocol):
    """An optimiser's update of weights and moments, from gradients in ``.grad``."""

    @property
    def takes_guard(self) -> bool:
        """True if updates take a guard; else the host reads norm and losses before each update."""

    def update(self, rate: float, guard: Guard | None = None) -> None:
        """Update every weight that has a gradient; moments change in place.

        With a guard, gradients are first divided by its divisor, and a bad step changes nothing.
        """


def zero_moments(
    optimizer: Optimizer, table: tuple[Weight, ...], parameters: Mapping[str, Tensor]
) -> Moments:
    """A rule's moments as zeros, with the shape, dtype and device of the weights."""
    return {
        name: torch.zeros_like(parameters[weight.name], requires_grad=False)
        for name, weight in moments_of(optimizer, table).items()
    }


def make_rule(
    optimizer: Optimizer,
    table: tuple[Weight, ...],
    parameters: Mapping[str, Tensor],
    moments: Moments,
    updates: int,
    compiled: bool = False,
    add: Add | None = None,
    precision: Literal["fp32", "bf16"] = "bf16",
) -> UpdateRule:
    """The update rule of a stage, ``updates`` updates into the run."""
    undecayed, unadapted = optimizer.exempt(table), optimizer.exempt(table, adapting=True)
    frozen = {weight.name for weight in table if weight.frozen}
    parameters = {name: p for name, p in parameters.items() if name not in frozen}
    match optimizer:
        case Adam():
            # The fused kernel updates in one pass, so there is nothing to compile.
            return AdamRule(optimizer, undecayed, parameters, moments, updates)
        case rules.Lamb() | rules.StableAdam():
            exempt = undecayed, unadapted
            return ForeachRule(optimizer, *exempt, parameters, moments, updates, compiled, add)
        case rules.Muon():
            names = {weight.name for weight in table if optimizer.takes(weight)}
            matrices = {name: p for name, p in parameters.items() if name in names}
            rest = {name: p for name, p in parameters.items() if name not in names}
            adam = AdamRule(optimizer.of_others, undecayed, rest, moments, updates)
            on_cpu = all(p.device.type == "cpu" for p in matrices.values())
            dtype = torch.float32 if on_cpu and precision == "fp32" else torch.bfloat16
            return MuonRule(optimizer, matrices, moments, adam.update, dtype)
        case rules.OwnRule():
            return UserRule(optimizer, undecayed, parameters, moments, updates)


def gradient_norm(parameters: Mapping[str, Tensor]) -> Tensor:
    """The 2-norm of all gradients of this process as one vector; 0-d, on the device."""
    gradients = local_shards(p.grad for p in parameters.values() if p.grad is not None)
    with profile_as("optimiser"):
        return torch.nn.utils.get_total_norm(gradients, foreach=True)


def clip(parameters: Mapping[str, Tensor], norm: float, limit: float) -> None:
    """Scale all gradients so that their norm, known to be ``norm``, is at most ``limit``."""
    if limit and norm > limit:
        gradients = local_shards(p.grad for p in parameters.values() if p.grad is not None)
        with profile_as("optimiser"):
            torch._foreach_mul_(gradients, limit / norm)


def clip_tensors(parameters: Mapping[str, Tensor], limit: float, add: Add, copies: int) -> None:
    """Scale the gradient of each tensor so that its norm is at most ``limit`` (BertAdam).

    ``add`` sums a vector over processes, of which ``copies`` hold the same gradient.
    """
    gradients = local_shards(p.grad for p in parameters.values() if p.grad is not None)
    with profile_as("optimiser"):
        squares = torch.stack(torch._foreach_norm(gradients)).double().square()
        add(squares)  # shards: their squares add up
        factors = (limit / (squares / copies).sqrt()).clamp(max=1).float()
        torch._foreach_mul_(gradients, list(factors.unbind()))


def guard(losses_t: Tensor, squared_norm: Tensor, limit: float) -> Guard:
    """The guard of a step with these losses (t,) and squared gradient norm (0-d), all fp64."""
    # A number minus itself is 0 if it is finite, else NaN.
    total = losses_t.sum() + squared_norm
    bad = (total - total).ne(0).float()
    return Guard((squared_norm / limit**2).sqrt().clamp(min=1).float() if limit else None, bad)


Settings = tuple[float, float, float]
"""Decay, learning-rate factor and eps of a group of weights."""
Moved = tuple[Tensor, Tensor, Tensor]
"""A weight and its two moments."""


class AdamRule:
    """Adam with decoupled decay (Loshchilov and Hutter 2019), by the kernel of ``torch.optim``.

    The correction of a moment divides by 1 - beta^t. Without bias correction the kernel's
    t is held at infinity, where the divisor is exactly 1: what is left is the update of BERT's
    AdamWeightDecayOptimizer (optimization.py). All weights have one t, as after loading.
    """

    takes_guard = True

    def __init__(
        self,
        optimizer: Adam,
        undecayed: set[str],
        parameters: Mapping[str, Tensor],
        moments: Moments,
        updates: int,
    ) -> None:
        layers = {name: layer_of(name) for name in parameters}
        top = max((layer for layer in layers.values() if layer is not None), default=0)
        self._groups = defaultdict[Settings, list[Moved]](list)
        for name, parameter in parameters.items():
            layer = layers[name]
            # By the number of layers up to the heads (ELECTRA's _get_layer_lrs).
            share = optimizer.layer_decay ** (0 if layer is None else top + 2 - layer)
            # m / (sqrt(v) + eps) of a gradient times c is that of the gradient with eps / c.
            eps = optimizer.eps / optimizer.gradient_decay ** (top - (layer or top))
            decay = 0.0 if name in undecayed else optimizer.decay_by_rate
            moved = parameter, moments[f"m.{name}"], moments[f"v.{name}"]
            self._groups[decay, share, eps].append(moved)
        self._betas = optimizer.betas
        count = float(updates) if optimizer.bias_correction else math.inf
        self._updates = torch.tensor(count, device=next(iter(parameters.values())).device)

    @torch.no_grad()
    def update(self, rate: float, guard: Guard | None = None) -> None:
        """Update every weight that has a gradient, by torch's fused kernel."""
        self._updates += 1
        for settings, group in self._groups.items():
            active = [moved for moved in group if moved[0].grad is not None]
            if active:
                self._move(settings, active, rate, guard)
        if guard is not None:
            self._updates -= guard.bad

    def _move(
        self, settings: Settings, active: list[Moved], rate: float, guard: Guard | None
    ) -> None:
        decay, share, eps = settings
        weights, first, second = (local_shards(column) for column in zip(*active, strict=True))
        gradients = local_shards(weight.grad for weight, _, _ in active if weight.grad is not None)
        torch._fused_adamw_(
            weights, gradients, first, second, [], [self._updates] * len(active), lr=rate * share,
            beta1=self._betas[0], beta2=self._betas[1], weight_decay=decay, eps=eps,
            amsgrad=False, maximize=False,
            grad_scale=guard.divisor if guard else None, found_inf=guard.bad if guard else None,
        )  # fmt: skip
