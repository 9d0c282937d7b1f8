"""Feed-forward kinds with their settings, weights and operations; ``model.ffn`` builds them."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Dim, Drawn, Node, Weight, affine, matrix
from bertc.ir.own import Own, sizes_of

Activation = Literal["gelu", "gelu-tanh", "relu", "silu", "tanh"]
"""``gelu`` is the erf form (PyTorch ports); ``gelu-tanh`` the approximation of the TF releases."""


class OwnActivation(Own):
    """A module of the user's own, from the inner states (b, s, f) of a part to others."""

    kind: Literal["own"] = "own"


class Mlp(Node):
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, 3.3)."""

    kind: Literal["mlp"] = "mlp"
    activation: Activation | OwnActivation = "gelu"

    @property
    def setting(self) -> Activation | OwnActivation:
        """The value of the setting ``activation`` for this node (see ``feed_forward``)."""
        return self.activation

    @property
    def head_activation(self) -> Activation:
        """The activation of the part, which heads have too, unless it is the user's."""
        return "gelu" if isinstance(self.activation, OwnActivation) else self.activation

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        inner: Dim = ("ffn", widths.ffn)
        outer: Dim = ("hidden", widths.hidden)
        return (
            *affine(f"{name}.inner", inner, outer, init, "ffn"),
            *self._own_weights(f"{name}.own_activation", widths),
            *affine(f"{name}.outer", outer, inner, init, "ffn"),
        )

    def _own_weights(self, name: str, widths: op.Widths) -> Iterator[Weight]:
        if isinstance(self.activation, OwnActivation):
            yield from self.activation.own_weights(name, {"hidden": widths.ffn}, "ffn")

    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        inner, function = call.states * widths.ffn, self.activation
        if isinstance(function, OwnActivation):
            sizes = {"hidden": widths.ffn}
            activated = function.own_operations(sizes, call.rows, call.queries)
        else:
            saved = 0 if function in ("relu", "tanh") else inner
            activated = (op.Pointwise(function, inner, kept=saved),)
        return (
            op.Product(call.states, widths.hidden, widths.ffn, names=("inner",)),
            *activated,
            *((op.Dropout(call.states, widths.ffn),) if rate else ()),
            op.Product(call.states, widths.ffn, widths.hidden, names=("outer",)),
        )


class Glu(Node):
    """W3 (f(W1 x) * W2 x): an activated map gates another one (Shazeer 2020, section 2).

    ``geglu-tanh`` approximates GELU (LTG-BERT), heads do not. ``bias`` of all three maps, or of the
    ``outer`` one alone (MosaicBERT, BertGatedLinearUnitMLP; ModernBERT has none). In a fused map of
    both halves, W1 is the first.
    """

    kind: Literal["geglu", "geglu-tanh", "swiglu"] = "geglu"
    bias: bool | Literal["outer"] = True

    @property
    def setting(self) -> "Glu":
        return self

    @property
    def gate_activation(self) -> Activation:
        return "gelu-tanh" if self.kind == "geglu-tanh" else self.head_activation

    @property
    def head_activation(self) -> Activation:
        """The activation of the gate, which heads have too."""
        return "silu" if self.kind == "swiglu" else "gelu"

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        ffn: Dim = ("ffn", widths.ffn)
        hidden: Dim = ("hidden", widths.hidden)
        both = affine if self.bias is True else _without_bias
        outer = affine if self.bias else _without_bias
        return (
            *both(f"{name}.gate", ffn, hidden, init, "ffn"),
            *both(f"{name}.inner", ffn, hidden, init, "ffn"),
            *outer(f"{name}.outer", hidden, ffn, init, "ffn"),
        )

    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        """Gate and inner map as one product, kept whole for backward, and the outer one."""
        inner = call.states * widths.ffn
        return (
            op.Product(call.states, widths.hidden, 2 * widths.ffn, maps=2, names=("gate", "inner")),
            op.Pointwise(self.gate_activation, inner, kept=2 * inner),
            op.Pointwise("multiply", inner, kept=inner),
            *((op.Dropout(call.states, widths.ffn),) if rate else ()),
            op.Product(call.states, widths.ffn, widths.hidden, names=("outer",)),
        )


class OwnFfn(Own):
    """A module of the user's own, from states (b, s, h) to what is added to them."""

    kind: Literal["own"] = "own"
    head_activation: Activation = "gelu"
    looked_up = (*Own.looked_up, "head_activation")

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        return tuple(self.own_weights(f"{name}.own", sizes_of(widths), "ffn"))

    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        return self.own_operations(sizes_of(widths), call.rows, call.queries)

    @property
    def setting(self) -> Activation:
        return self.head_activation


Activations = Activation | Glu | OwnActivation
"""Values of the setting ``activation``."""
Ffn = Annotated[Mlp | Glu | OwnFfn, BY_KIND]
"""The closed union of feed-forward kinds."""


def feed_forward(setting: Activations, ffn: object = None) -> Mlp | Glu | OwnFfn:
    """The feed-forward node for values of the settings ``activation`` and ``ffn``."""
    node = setting if isinstance(setting, Glu) else Mlp(activation=setting)
    if isinstance(ffn, OwnFfn):
        return ffn.model_copy(update={"head_activation": node.head_activation})
    return node


def _without_bias(*stated: Any) -> tuple[Weight]:
    return (matrix(*stated),)
