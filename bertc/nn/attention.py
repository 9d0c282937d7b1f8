"""The kinds of self-attention.

Axes: b batch, s sequence, q tokens of it that ask, h hidden, n heads, d head_dim.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from bertc.ir.encoder import Dropout, LayerWidths
from bertc.nn.attend import Bounds, Visible, attend
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

    def forward(
        self, x_bqh: torch.Tensor, context_bsh: torch.Tensor | None, visible: Visible
    ) -> torch.Tensor:
        """States (b, q, h) that ask, and those (b, s, h) they look at if others, to (b, q, h)."""
        if context_bsh is None:
            mapped = _joined((self.query, self.key, self.value), x_bqh)
        elif isinstance(visible, Bounds):  # that kernel lets every token ask
            mapped = _joined((self.query, self.key, self.value), context_bsh)
        else:
            mapped = (self.query(x_bqh), *_joined((self.key, self.value), context_bsh))
        query, key, value = (rearrange(y, "b s (n d) -> b n s d", n=self.heads) for y in mapped)
        mixed_bnqd = attend(query, key, value, visible, self.dropout if self.training else 0.0)
        y_bqh: torch.Tensor = self.output(rearrange(mixed_bnqd, "b n q d -> b q (n d)"))
        return y_bqh


def _joined(maps: tuple[Affine, ...], x_bsh: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Several maps of the same states as one product: narrow ones leave the hardware idle."""
    weight = torch.cat([m.weight for m in maps]).to(x_bsh.dtype)
    bias = torch.cat([m.bias for m in maps]).to(x_bsh.dtype)
    return F.linear(x_bsh, weight, bias).chunk(len(maps), dim=-1)
