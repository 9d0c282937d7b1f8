"""The activations of the field, by name."""

from typing import assert_never

import torch
import torch.nn.functional as F

from bertc.ir.ffn import Activation


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
