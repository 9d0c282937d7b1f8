"""Feed-forward kinds: their settings and weights; ``nn.ffn`` has their modules."""

from typing import Literal

from bertc.ir.base import Axis, Drawn, Kept, Matmul, Node, Weight, affine

Activation = Literal["gelu", "gelu-tanh", "relu", "silu", "tanh"]
"""``gelu`` is the erf form (PyTorch ports); ``gelu-tanh`` the approximation of the TF releases."""


class Mlp(Node):
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, 3.3)."""

    kind: Literal["mlp"] = "mlp"
    activation: Activation = "gelu"

    @property
    def setting(self) -> Activation:
        """The value of the setting ``activation`` that ``feed_forward`` makes this of."""
        return self.activation

    @property
    def head_activation(self) -> Activation:
        """The activation of heads."""
        return self.activation

    def weights(self, name: str, hidden: int, width: int, init: Drawn) -> tuple[Weight, ...]:
        """The inner map (hidden -> width) and the outer map back."""
        inner: tuple[Axis, int] = ("ffn", width)
        outer: tuple[Axis, int] = ("hidden", hidden)
        return (
            *affine(f"{name}.inner", inner, outer, init, "ffn"),
            *affine(f"{name}.outer", outer, inner, init, "ffn"),
        )

    def matmuls(self, hidden: int, width: int, batch: int, seq: int) -> tuple[Matmul, ...]:
        """One product in, one product out."""
        return (
            Matmul("ffn", batch * seq, hidden, width),
            Matmul("ffn", batch * seq, width, hidden),
        )

    def kept(self, hidden: int, width: int, seq: int) -> Kept:
        """Input, activation, and what the activation's derivative needs beside its result."""
        before = 0 if self.activation in ("relu", "tanh") else 1
        return Kept(values=seq * (hidden + (1 + before) * width))

    def working(self, width: int, seq: int) -> int:
        """Values that backward holds at once beside what was kept: the activation's gradient."""
        return seq * width


Ffn = Mlp
"""The closed union of feed-forward kinds."""


def feed_forward(setting: Activation) -> Ffn:
    """The feed-forward part that the setting ``activation`` asks for."""
    return Mlp(activation=setting)
