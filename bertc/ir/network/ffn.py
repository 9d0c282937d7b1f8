"""Feed-forward kinds with their settings, weights and operations; ``nn.ffn`` builds them."""

from typing import Literal

from bertc.ir import operation as op
from bertc.ir.base import Axis, Drawn, Node, Weight, affine

Activation = Literal["gelu", "gelu-tanh", "relu", "silu", "tanh"]
"""``gelu`` is the erf form (PyTorch ports); ``gelu-tanh`` the approximation of the TF releases."""


class Mlp(Node):
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, 3.3)."""

    kind: Literal["mlp"] = "mlp"
    activation: Activation = "gelu"

    @property
    def setting(self) -> Activation:
        """The value of the setting ``activation`` for this node (see ``feed_forward``)."""
        return self.activation

    @property
    def head_activation(self) -> Activation:
        """The activation of heads."""
        return self.activation

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        """The inner projection (hidden -> ffn) and the outer one back."""
        inner: tuple[Axis, int] = ("ffn", widths.ffn)
        outer: tuple[Axis, int] = ("hidden", widths.hidden)
        return (
            *affine(f"{name}.inner", inner, outer, init, "ffn"),
            *affine(f"{name}.outer", outer, inner, init, "ffn"),
        )

    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        """Two products with the activation between; some activations save their input."""
        inner = call.states * widths.ffn
        by_result = self.activation in ("relu", "tanh")
        return (
            op.Product(call.states, widths.hidden, widths.ffn),
            op.Pointwise(self.activation, inner, kept=0 if by_result else inner),
            *((op.Dropout(call.states, widths.ffn),) if dropout else ()),
            op.Product(call.states, widths.ffn, widths.hidden),
        )


Ffn = Mlp
"""The closed union of feed-forward kinds."""


def feed_forward(setting: Activation) -> Ffn:
    """The feed-forward node for a value of the setting ``activation``."""
    return Mlp(activation=setting)
