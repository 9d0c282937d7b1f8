"""What the kinds of attention have in common.

Axes: b batch, s sequence, q tokens of it that ask, h hidden.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from bertc.ir.network.encoder import Encoder
from bertc.nn.weights import LayerNorm, Linear, Table


class AttentionPart(nn.Module):
    """Attention of some kind, and the norm that goes with it.

    Called with the states (b, q, h) that ask, those (b, s, h) they look at if others, and what of
    these they see, it gives (b, q, h).
    """

    def __init__(self, table: Table, name: str, node: Encoder) -> None:
        super().__init__()
        self.norm = LayerNorm(table, f"{name}.norm", node.norm.eps)


def joined(maps: Sequence[Linear], x_bsh: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Several maps of the same states as one product: narrow ones leave the hardware idle."""
    weight = torch.cat([m.weight for m in maps]).to(x_bsh.dtype)
    biases: list[torch.Tensor] = [m.bias for m in maps if m.bias is not None]
    bias = torch.cat(biases).to(x_bsh.dtype) if biases else None
    return F.linear(x_bsh, weight, bias).chunk(len(maps), dim=-1)
