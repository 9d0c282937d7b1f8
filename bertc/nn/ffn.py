"""The kinds of position-wise feed-forward parts."""

import torch
from torch import nn

from bertc.ir.ffn import Mlp as MlpNode
from bertc.nn.activation import activate
from bertc.nn.weights import Affine, Table


class Mlp(nn.Module):
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, 3.3)."""

    def __init__(self, table: Table, name: str, node: MlpNode) -> None:
        super().__init__()
        self.inner = Affine(table, f"{name}.inner")
        self.outer = Affine(table, f"{name}.outer")
        self.activation = node.activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Hidden states (b, s, h) to (b, s, h)."""
        y: torch.Tensor = self.outer(activate(self.activation, self.inner(x)))
        return y
