"""Activations by name, and kinds of position-wise feed-forward parts.

Axes: b batch, s sequence, h hidden, f inner width.
"""

from functools import partial
from typing import assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bertc.ir.network import ffn as nodes
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.residual import OwnResidual
from bertc.model.native.kernels import dropout, kernels_for, with_gradient
from bertc.model.norm import AnyNorm, build_norm, norm_if_any
from bertc.model.own import OwnModule, call_own, construct_from
from bertc.model.weights import Linear, Table, adapted, join_linear


def activate(kind: nodes.Activation, x: Tensor) -> Tensor:
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


def activated(kind: nodes.Activation, linear: Linear, x: Tensor) -> Tensor:
    """The activation of a linear map of ``x``; GELU with tanh has a kernel on a CPU."""
    bias = linear.bias
    kernels = None if bias is None else kernels_for(x, linear.weight, bias)
    if bias is None or kernels is None or kind != "gelu-tanh":
        return activate(kind, linear(x))
    product = adapted((linear,), x, F.linear(x, linear.weight.to(x.dtype)))
    inputs = product, bias.float()
    return with_gradient(kernels.gelu, kernels.gelu_backward, inputs, *inputs)


GATES: dict[nodes.Activation, int] = {"gelu": 0, "gelu-tanh": 1, "silu": 2}
"""Activations with a kernel for gated parts, by their numbers there (kernels.c, share)."""


def gate_activated(kind: nodes.Activation, x: Tensor) -> Tensor:
    """The activation of the first half of the last axis, times the second."""
    kernels = kernels_for(x) if kind in GATES else None
    if kernels is None:
        gate, inner = x.chunk(2, dim=-1)
        return activate(kind, gate) * inner
    x, both = x.contiguous(), (kernels.gated, kernels.gated_backward)
    run, back = (partial(kernel, kind=GATES[kind]) for kernel in both)
    return with_gradient(run, back, (x,), x)


class FeedForward(nn.Module):
    """A function of each state (b, s, h) by itself; ``build_ffn`` adds its norms."""

    norm: AnyNorm
    output_norm: AnyNorm | None
    inner_norm: AnyNorm | None
    dropout: float

    def __init__(self) -> None:
        super().__init__()
        self.own_join: nn.Module | None = None

    def read_last(self, inner_bsf: Float[Tensor, "b s f"]) -> Tensor:
        """Inner values as the last map reads them: after a norm if any, and dropout."""
        normed = inner_bsf if self.inner_norm is None else self.inner_norm(inner_bsf)
        return dropout(normed, self.dropout, self.training)


class Mlp(FeedForward):
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, 3.3)."""

    def __init__(self, table: Table, name: str, node: nodes.Mlp) -> None:
        super().__init__()
        self.inner = Linear(table, f"{name}.inner")
        self.outer = Linear(table, f"{name}.outer")
        self.activation: nodes.Activation | None = None
        if isinstance(node.activation, nodes.OwnActivation):
            self.own_activation = construct_from(table, f"{name}.own_activation", node.activation)
        else:
            self.activation = node.activation

    def forward(self, x_bsh: Float[Tensor, "b s h"]) -> Tensor:
        """Hidden states (b, s, h) to (b, s, h)."""
        if self.activation is None:
            inner_bsf = call_own(self.own_activation, self.inner(x_bsh))
        else:
            inner_bsf = activated(self.activation, self.inner, x_bsh)
        return self.outer(self.read_last(inner_bsf))


class Glu(FeedForward):
    """W3 (f(W1 x) * W2 x) (Shazeer 2020, section 2)."""

    def __init__(self, table: Table, name: str, node: nodes.Glu) -> None:
        super().__init__()
        self.gate = Linear(table, f"{name}.gate")
        self.inner = Linear(table, f"{name}.inner")
        self.outer = Linear(table, f"{name}.outer")
        self.activation = node.gate_activation

    def forward(self, x_bsh: Float[Tensor, "b s h"]) -> Tensor:
        """Hidden states (b, s, h) to (b, s, h)."""
        gated_bsf = gate_activated(self.activation, join_linear((self.gate, self.inner), x_bsh))
        return self.outer(self.read_last(gated_bsf))


class OwnFfn(OwnModule, FeedForward):
    """A module of the user's own."""


def joining_of(table: Table, name: str, node: Encoder) -> nn.Module | None:
    """Build the user's module that joins the output of a part to the stream, if there is one."""
    if not isinstance(node.residual, OwnResidual):
        return None
    return construct_from(table, f"{name}.own_join", node.residual)


def build_ffn(table: Table, name: str, node: Encoder) -> FeedForward:
    """Build the feed-forward part of one layer by its kind, with its norms."""
    match node.ffn:
        case nodes.Mlp():
            part: FeedForward = Mlp(table, name, node.ffn)
        case nodes.Glu():
            part = Glu(table, name, node.ffn)
        case nodes.OwnFfn():
            part = OwnFfn(table, name, node.ffn)
        case _:
            assert_never(node.ffn)
    part.dropout = node.dropout.ffn
    part.own_join = joining_of(table, name, node)
    part.norm = build_norm(table, f"{name}.norm", node.norm.of_layers)
    part.inner_norm = norm_if_any(table, f"{name}.inner_norm", node.norm.within("ffn"))
    part.output_norm = norm_if_any(table, f"{name}.output_norm", node.norm.after("ffn"))
    return part
