"""Norm functions, and the sum of states and a part's output with its norm."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bertc.ir.network import norm as nodes
from bertc.model.native.kernels import Dropped, Kernels, drop, dropout, kernels_for
from bertc.model.own import OwnModule
from bertc.model.weights import Table, parameter


class Norm(nn.Module):
    """Layer or RMS norm over the last axis, in the dtype of ``x``, with statistics in fp32."""

    def __init__(self, table: Table, name: str, node: nodes.LayerNorm | nodes.RmsNorm) -> None:
        super().__init__()
        self.centred = isinstance(node, nodes.LayerNorm)
        self.weight = parameter(table[f"{name}.weight"]) if node.affine else None
        self.bias = parameter(table[f"{name}.bias"]) if node.affine and node.bias else None
        self.eps = node.eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to (..., width)."""
        kernels = _kernels(self, x)
        if kernels is not None and x.is_contiguous():  # of others a copy would be saved
            return _fused(self, kernels, x)[0]
        weight = None if self.weight is None else self.weight.to(x.dtype)
        if not self.centred:
            return F.rms_norm(x, x.shape[-1:], weight, self.eps)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.eps)

    def extra_repr(self) -> str:
        """Width, for printing."""
        width = "no weights" if self.weight is None else str(len(self.weight))
        return f"{width}, eps={self.eps:g}"


AnyNorm = Norm | OwnModule


def build_norm(table: Table, name: str, node: nodes.NormFunction) -> AnyNorm:
    """Build the norm of this name by its kind."""
    if isinstance(node, nodes.OwnNorm):
        return OwnModule(table, name, node)
    return Norm(table, name, node)


def norm_if_any(table: Table, name: str, node: nodes.NormFunction | None) -> AnyNorm | None:
    """Build the norm of this name, where there is one."""
    return None if node is None else build_norm(table, name, node)


def sum_and_norm(norm: AnyNorm, x: Tensor, y: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """x + dropout(y) of two tensors (..., width), and its norm."""
    kernels = _kernels(norm, x)
    like = x.dtype == y.dtype and x.shape == y.shape
    if not isinstance(norm, Norm) or kernels is None or not like or rate == 1:
        total = x + dropout(y, rate, training=True)
        return total, norm(total)
    normed, total = _fused(norm, kernels, x, y, rate)
    return total, normed


def _kernels(norm: AnyNorm, x: Tensor) -> Kernels | None:
    """The kernels that compute a norm; those of other kinds have none."""
    if not isinstance(norm, Norm):
        return None
    weights = [weight for weight in (norm.weight, norm.bias) if weight is not None]
    return kernels_for(x, *weights, width=x.shape[-1])


def _fused(
    norm: Norm, kernels: Kernels, x: Tensor, y: Tensor | None = None, rate: float = 0
) -> tuple[Tensor, Tensor]:
    """The norm of x + dropout(y), and that sum."""
    how = norm.eps, norm.centred, drop(rate), kernels
    inputs = x, y, norm.weight, norm.bias, how
    return cast(tuple[Tensor, Tensor], _Normed.apply(*inputs))  # type: ignore[no-untyped-call]


How = tuple[float, bool, Dropped, Kernels]
"""The number added to variances, True to take off the mean, the dropout, and the kernels."""


class _Normed(torch.autograd.Function):
    """One fused kernel each for forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor | None, weight: Tensor | None, bias: Tensor | None, how: How
    ) -> tuple[Tensor, Tensor | None]:
        eps, centred, dropped, kernels = how
        scale = torch.ones(x.shape[-1]) if weight is None else weight.float()
        shift = torch.zeros(x.shape[-1]) if bias is None else bias.float()
        x, y = x.contiguous(), None if y is None else y.contiguous()
        out, sums, *rest = kernels.norm(x, y, scale, shift, eps, centred, dropped)
        ctx.save_for_backward(sums, *rest, scale)
        ctx.how = centred, dropped, kernels
        ctx.set_materialize_grads(False)
        return out, None if y is None else sums

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, upstream: Tensor | None, sums_upstream: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        *how, kernels = ctx.how
        saved = ctx.saved_tensors  # read once: recomputed layers allow no more
        upstream = torch.zeros_like(saved[0]) if upstream is None else upstream.contiguous()
        sums_upstream = None if sums_upstream is None else sums_upstream.contiguous()
        grads = kernels.norm_backward(upstream, sums_upstream, *saved, *how)
        asked = zip(grads, ctx.needs_input_grad, strict=False)
        return *(grad if needed else None for grad, needed in asked), None
