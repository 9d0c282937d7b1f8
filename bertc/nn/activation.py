"""Activations by name."""

from typing import Any, assert_never

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from bertc.ir.network.ffn import Activation
from bertc.native import Kernels, kernels_for
from bertc.nn.weights import Linear


def activate(kind: Activation, x: torch.Tensor) -> torch.Tensor:
    """Apply an activation elementwise; any shape."""
    match kind:
        case "gelu":
            return F.gelu(x)
        case "gelu-tanh":
            return F.gelu(x, approximate="tanh")
        case "relu":
            return F.relu(x)
        case "silu":
            return F.silu(x)
        case "tanh":
            return torch.tanh(x)
        case _:
            assert_never(kind)


def activated(kind: Activation, linear: Linear, x: torch.Tensor) -> torch.Tensor:
    """The activation of a linear map of ``x``.

    GELU with tanh has a kernel of its own on a CPU, which adds the bias too: the library's takes
    four times as long as its form with erf.
    """
    bias = linear.bias
    kernels = None if bias is None else kernels_for(x, linear.weight, bias)
    if kernels is None or kind != "gelu-tanh":
        return activate(kind, linear(x))
    product = F.linear(x, linear.weight.to(x.dtype))
    y: torch.Tensor = _Gelu.apply(product, bias, kernels)  # type: ignore[no-untyped-call]
    return y


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bias: torch.Tensor, kernels: Kernels) -> torch.Tensor:
        bias = bias.float()
        ctx.save_for_backward(x, bias)
        ctx.kernels = kernels
        return kernels.gelu(x, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return *ctx.kernels.gelu_backward(*ctx.saved_tensors, upstream.contiguous()), None
