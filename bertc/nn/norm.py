"""The norm of a sum of states and what a part adds to them."""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from bertc.native import Dropped, Kernels, drop, kernels_for
from bertc.nn.dropout import dropout
from bertc.nn.weights import LayerNorm


def norm_of_sum(
    norm: LayerNorm, x: torch.Tensor, y: torch.Tensor, rate: float, training: bool
) -> torch.Tensor:
    """norm(x + dropout(y)) of two tensors (..., width)."""
    rate = rate if training else 0.0
    own = [weight for weight in (norm.weight, norm.bias) if weight is not None]
    kernels = kernels_for(x, *own, width=x.shape[-1])
    like = x.dtype == y.dtype and x.shape == y.shape
    if kernels is None or not like or len(own) < 2 or rate == 1:
        plain: torch.Tensor = norm(x + dropout(y, rate, training))
        return plain
    normed: torch.Tensor = _NormOfSum.apply(  # type: ignore[no-untyped-call]
        x, y, *own, norm.eps, drop(rate), kernels
    )
    return normed


class _NormOfSum(torch.autograd.Function):
    """In two kernels, one a way: nothing lies between a product and the next but its result."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        y: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        eps: float,
        dropped: Dropped,
        kernels: Kernels,
    ) -> torch.Tensor:
        weight, bias = weight.float(), bias.float()
        out, *kept = kernels.norm(x.contiguous(), y.contiguous(), weight, bias, eps, dropped)
        ctx.save_for_backward(*kept, weight)
        ctx.how = dropped, kernels
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        dropped, kernels = ctx.how
        grads = kernels.norm_backward(upstream.contiguous(), *ctx.saved_tensors, dropped)
        return (*grads, None, None, None)
