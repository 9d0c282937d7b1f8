"""The loss of logits against a teacher's, without all logits of either at once.

Axes: n predictions, e embedding, f embedding of a teacher, v token ids or labels.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertc.ir.blocks import SOFT_TARGETS

CPU_SCORES, GPU_SCORES = SOFT_TARGETS
"""Logits of a network at once: as few as products are still fast with."""


class Logits(NamedTuple):
    """Logits on demand: features times a table, and a bias."""

    features: Float[Tensor, "n e"]
    table: Float[Tensor, "v e"]
    bias: Float[Tensor, "v"]

    def of(self, part: slice) -> Float[Tensor, "p v"]:
        """The logits of some predictions, in fp32."""
        products = F.linear(self.features[part], self.table.to(self.features.dtype))
        return products.float().add_(self.bias.float())


class Comparison(NamedTuple):
    """Kind, temperature and factor of the loss of one prediction."""

    loss: Literal["kl", "ce", "mse"]
    temperature: float
    factor: float


def soft_target_loss(
    mine: Logits,
    taught: Sequence[Logits],
    shares: Sequence[float],
    weights_n: Float[Tensor, "n"],
    how: Comparison,
) -> Tensor:
    """The summed loss (0-d) of weighted predictions against the mean of teachers."""
    if not torch.is_grad_enabled():  # a parameter would ask for its gradient all the same
        mine = Logits(*(logits.detach() for logits in mine))
    weights_n, teachers = weights_n.float(), [part for logits in taught for part in logits]
    loss: Tensor = _SoftTargets.apply(  # type: ignore[no-untyped-call]
        mine.features, mine.table, mine.bias, weights_n, how, tuple(shares), *teachers
    )
    return loss


def compared(
    own_nv: Float[Tensor, "n v"],
    taught: Iterable[Float[Tensor, "n v"]],
    shares: Sequence[float],
    how: Comparison,
) -> tuple[Float[Tensor, "n"], Float[Tensor, "n v"]]:
    """The loss of each prediction, and its slope by the student's logits."""
    if how.loss == "mse":
        apart_nv = own_nv - _mean(taught, shares)
        return how.factor * apart_nv.square().sum(1), 2 * how.factor * apart_nv
    told_nv = _mean(((logits / how.temperature).softmax(1) for logits in taught), shares)
    log_own_nv = (own_nv / how.temperature).log_softmax(1)
    slope_nv = log_own_nv.exp().sub_(told_nv).mul_(how.factor / how.temperature)
    losses_n = -(told_nv * log_own_nv).sum(1)
    match how.loss:
        case "kl":
            losses_n = losses_n + torch.special.xlogy(told_nv, told_nv).sum(1)
        case "ce":
            pass
        case _:
            assert_never(how.loss)
    return how.factor * losses_n, slope_nv


def _mean(tensors: Iterable[Tensor], shares: Sequence[float]) -> Tensor:
    if len(shares) == 1:
        (only,) = tensors
        return only
    weighted = (share * one for share, one in zip(shares, tensors, strict=True))
    total = next(weighted)
    for one in weighted:
        total += one
    return total / sum(shares)


class _SoftTargets(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ne: Float[Tensor, "n e"],
        table_ve: Float[Tensor, "v e"],
        bias_v: Float[Tensor, "v"],
        weights_n: Float[Tensor, "n"],
        how: Comparison,
        shares: tuple[float, ...],
        *teachers: Tensor,
    ) -> Tensor:
        mine, dtype = Logits(x_ne, table_ve, bias_v), x_ne.dtype
        taught = [Logits(*teachers[first : first + 3]) for first in range(0, len(teachers), 3)]
        differentiated = any(ctx.needs_input_grad)
        x_grad_ne = torch.empty_like(x_ne) if differentiated else None
        table_grad_ve = torch.zeros_like(table_ve, dtype=torch.float32) if differentiated else None
        bias_grad_v = torch.zeros_like(bias_v, dtype=torch.float32) if differentiated else None
        total = x_ne.new_zeros((), dtype=torch.float32)
        at_once = CPU_SCORES if x_ne.device.type == "cpu" else GPU_SCORES
        rows = max(1, at_once // len(bias_v))
        for start in range(0, len(x_ne), rows):
            part = slice(start, start + rows)
            theirs = (logits.of(part) for logits in taught)
            losses_p, slope_pv = compared(mine.of(part), theirs, shares, how)
            total += losses_p @ weights_n[part]
            if x_grad_ne is None or table_grad_ve is None or bias_grad_v is None:
                continue
            slope_pv.mul_(weights_n[part, None])
            bias_grad_v += slope_pv.sum(0)
            slope_pv = slope_pv.to(dtype)
            x_grad_ne[part] = slope_pv @ table_ve.to(dtype)
            table_grad_ve += slope_pv.t() @ x_ne[part]
            del slope_pv  # or it stands beside the logits of the next
        ctx.save_for_backward(x_grad_ne, table_grad_ve, bias_grad_v)
        ctx.dtypes = table_ve.dtype, bias_v.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x_grad_ne, table_grad_ve, bias_grad_v = ctx.saved_tensors
        table_dtype, bias_dtype = ctx.dtypes
        return (
            x_grad_ne * upstream.to(x_grad_ne.dtype),
            (table_grad_ve * upstream).to(table_dtype),
            (bias_grad_v * upstream).to(bias_dtype),
            *(None for _ in ctx.needs_input_grad[3:]),
        )
