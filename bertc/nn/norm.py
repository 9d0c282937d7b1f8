"""Norm functions, and the norm of the sum of states and a part's output."""

from typing import Any, assert_never

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from bertc.ir.network.norm import LayerNorm as LayerNormNode
from bertc.ir.network.norm import NormFunction
from bertc.native import Dropped, Kernels, drop, kernels_for
from bertc.nn.dropout import dropout
from bertc.nn.weights import Table, parameter


class LayerNorm(nn.Module):
    """Layer norm over the last axis, in the dtype of ``x``, with statistics in fp32.

    Without ``affine`` it has no scale and shift.
    """

    def __init__(self, table: Table, name: str, node: LayerNormNode) -> None:
        super().__init__()
        self.weight = parameter(table[f"{name}.weight"]) if node.affine else None
        self.bias = parameter(table[f"{name}.bias"]) if node.affine else None
        self.eps = node.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to (..., width)."""
        weight = None if self.weight is None else self.weight.to(x.dtype)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.eps)

    def extra_repr(self) -> str:
        """Width, for printing."""
        width = "no weights" if self.weight is None else str(len(self.weight))
        return f"{width}, eps={self.eps:g}"


Norm = LayerNorm
"""The modules of all norm functions."""


def build_norm(table: Table, name: str, node: NormFunction) -> Norm:
    """Build the norm of this name by its kind."""
    match node:
        case LayerNormNode():
            return LayerNorm(table, name, node)
        case _:
            assert_never(node)


def norm_of_sum(
    norm: Norm, x: torch.Tensor, y: torch.Tensor, rate: float, training: bool
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
    """One fused kernel each for forward and backward."""

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
