"""The kinds of self-attention.

Axes: b batch, s sequence, h hidden, n heads, d head_dim.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from bertc.ir.encoder import Dropout, LayerWidths
from bertc.nn.attend import Visible, attend
from bertc.nn.weights import Affine, Table


class FullAttention(nn.Module):
    """softmax(Q K^T / sqrt(d)) V over all heads, then the output map (Vaswani et al. 2017, 3.2)."""

    def __init__(self, table: Table, name: str, widths: LayerWidths, dropout: Dropout) -> None:
        super().__init__()
        self.query = Affine(table, f"{name}.query")
        self.key = Affine(table, f"{name}.key")
        self.value = Affine(table, f"{name}.value")
        self.output = Affine(table, f"{name}.output")
        self.heads = widths.heads
        self.dropout = dropout.attention

    def forward(self, x_bsh: torch.Tensor, visible: Visible) -> torch.Tensor:
        """Hidden states (b, s, h) to (b, s, h)."""
        query, key, value = (
            rearrange(y, "b s (n d) -> b n s d", n=self.heads) for y in self._projections(x_bsh)
        )
        mixed_bnsd = attend(query, key, value, visible, self.dropout if self.training else 0.0)
        y_bsh: torch.Tensor = self.output(rearrange(mixed_bnsd, "b n s d -> b s (n d)"))
        return y_bsh

    def _projections(self, x_bsh: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # One product instead of three: the narrow ones of small models leave the hardware idle.
        maps = (self.query, self.key, self.value)
        weight = torch.cat([m.weight for m in maps]).to(x_bsh.dtype)
        bias = torch.cat([m.bias for m in maps]).to(x_bsh.dtype)
        return F.linear(x_bsh, weight, bias).chunk(3, dim=-1)
