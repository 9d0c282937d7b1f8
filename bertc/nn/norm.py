"""Norm functions, and the norm of the sum of states and a part's output."""

from typing import Any, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import nn
from torch.autograd.function import once_differentiable

from bertc.ir.network.norm import LayerNorm as LayerNormNode
from bertc.ir.network.norm import NormFunction
from bertc.ir.network.norm import RmsNorm as RmsNormNode
from bertc.native import Dropped, Kernels, drop, kernels_for
from bertc.nn.dropout import dropout
from bertc.nn.weights import Table, parameter

HEAD_EPS = 1e-6
"""Added to the mean square of a head (Qwen3, rms_norm_eps)."""


class LayerNorm(nn.Module):
    """Layer norm over the last axis, in the dtype of ``x``, with statistics in fp32.

    Without ``affine`` it has no scale and shift, without ``bias`` no shift.
    """

    def __init__(self, table: Table, name: str, node: LayerNormNode) -> None:
        super().__init__()
        shifts = node.affine and node.bias
        self.weight = parameter(table[f"{name}.weight"]) if node.affine else None
        self.bias = parameter(table[f"{name}.bias"]) if shifts else None
        self.eps = node.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to (..., width)."""
        weight = None if self.weight is None else self.weight.to(x.dtype)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.eps)

    def extra_repr(self) -> str:
        """Width, for printing."""
        return _shown(self.weight, self.eps)


class RmsNorm(nn.Module):
    """RMS norm over the last axis, in the dtype of ``x``, with means in fp32."""

    bias: None = None

    def __init__(self, table: Table, name: str, node: RmsNormNode) -> None:
        super().__init__()
        self.weight = parameter(table[f"{name}.weight"]) if node.affine else None
        self.eps = node.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to (..., width)."""
        if x.device.type == "cuda" or torch.compiler.is_compiling():
            weight = None if self.weight is None else self.weight.to(x.dtype)
            return F.rms_norm(x, x.shape[-1:], weight, self.eps)
        y: torch.Tensor = _Rms.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
        return y

    def extra_repr(self) -> str:
        """Width, for printing."""
        return _shown(self.weight, self.eps)


class HeadNorm(nn.Module):
    """Every head divided by its root mean square, and scaled alike (Zhang and Sennrich 2019)."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.weight = parameter(table[f"{name}.weight"])

    def forward(self, x_bsnd: Float[torch.Tensor, "b s n d"]) -> torch.Tensor:
        """Heads (b, s, n, d) to (b, s, n, d)."""
        return F.rms_norm(x_bsnd, self.weight.shape, self.weight.to(x_bsnd.dtype), HEAD_EPS)


def _shown(weight: torch.Tensor | None, eps: float) -> str:
    width = "no weights" if weight is None else str(len(weight))
    return f"{width}, eps={eps:g}"


Norm = LayerNorm | RmsNorm
"""The modules of all norm functions."""


def build_norm(table: Table, name: str, node: NormFunction) -> Norm:
    """Build the norm of this name by its kind."""
    match node:
        case LayerNormNode():
            return LayerNorm(table, name, node)
        case RmsNormNode():
            return RmsNorm(table, name, node)
        case _:
            assert_never(node)


def norm_if_any(table: Table, name: str, node: NormFunction | None) -> Norm | None:
    """Build the norm of this name, where there is one."""
    return None if node is None else build_norm(table, name, node)


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


class _Rms(torch.autograd.Function):
    """x / sqrt(mean of x^2 + eps) * weight; torch's keeps x twice on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        wide = x.float()
        rate = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, rate, weight)
        normed = wide * rate
        return (normed if weight is None else normed * weight).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, rate, weight = ctx.saved_tensors
        normed, slope, weight_grad = x.float() * rate, upstream.float(), None
        if weight is not None:
            weight_grad = (slope * normed).flatten(0, -2).sum(0).to(weight.dtype)
            slope = slope * weight
        along = (slope * normed).mean(-1, keepdim=True)
        return ((slope - normed * along) * rate).to(x.dtype), weight_grad, None
