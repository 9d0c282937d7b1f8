"""Kinds of position-wise feed-forward parts.

Axes: b batch, s sequence, h hidden.
"""

from typing import assert_never

import torch
from jaxtyping import Float
from torch import nn

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Mlp as MlpNode
from bertc.nn.activation import activated
from bertc.nn.dropout import dropout
from bertc.nn.norm import Norm, build_norm
from bertc.nn.weights import Linear, Table


class FeedForward(nn.Module):
    """A function of each state (b, s, h) by itself; ``build_ffn`` adds its norm."""

    norm: Norm


class Mlp(FeedForward):
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, 3.3)."""

    def __init__(self, table: Table, name: str, node: MlpNode, rate: float) -> None:
        super().__init__()
        self.dropout = rate
        self.inner = Linear(table, f"{name}.inner")
        self.outer = Linear(table, f"{name}.outer")
        self.activation = node.activation

    def forward(self, x_bsh: Float[torch.Tensor, "b s h"]) -> torch.Tensor:
        """Hidden states (b, s, h) to (b, s, h)."""
        inner_bsf = activated(self.activation, self.inner, x_bsh)
        inner_bsf = dropout(inner_bsf, self.dropout, self.training)
        y_bsh: torch.Tensor = self.outer(inner_bsf)
        return y_bsh


def build_ffn(table: Table, name: str, node: Encoder) -> FeedForward:
    """Build the feed-forward part of one layer by its kind, with its norm."""
    match node.ffn:
        case MlpNode():
            part = Mlp(table, name, node.ffn, node.dropout.ffn)
        case _:
            assert_never(node.ffn)
    part.norm = build_norm(table, f"{name}.norm", node.norm.function)
    return part
