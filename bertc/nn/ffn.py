"""The kinds of position-wise feed-forward parts."""

import torch
from torch import nn

from bertc.ir.network.ffn import Mlp as MlpNode
from bertc.nn.activation import activated
from bertc.nn.dropout import dropout
from bertc.nn.weights import Linear, Table


class Mlp(nn.Module):
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, 3.3)."""

    def __init__(self, table: Table, name: str, node: MlpNode, rate: float) -> None:
        super().__init__()
        self.dropout = rate
        self.inner = Linear(table, f"{name}.inner")
        self.outer = Linear(table, f"{name}.outer")
        self.activation = node.activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Hidden states (b, s, h) to (b, s, h)."""
        inner = activated(self.activation, self.inner, x)
        inner = dropout(inner, self.dropout, self.training)
        y: torch.Tensor = self.outer(inner)
        return y
