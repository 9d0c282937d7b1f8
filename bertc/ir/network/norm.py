"""Norm placements and norm functions.

Placement is a setting; it names the norm function of layers, embeddings and heads.
"""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import ONES, ZEROS, Axis, Node, Part, Weight

Epsilon = Annotated[float, Field(gt=0, le=1)]


class LayerNorm(Node):
    """(x - mean) / sqrt(variance + eps), scaled and shifted if ``affine`` (Ba et al. 2016)."""

    kind: Literal["layer"] = "layer"
    eps: Epsilon
    affine: bool = True

    def weights(self, name: str, axis: Axis, width: int, part: Part = "norm") -> tuple[Weight, ...]:
        """Scale and shift over ``width``, if affine."""
        if not self.affine:
            return ()
        return (
            Weight(f"{name}.weight", (width,), (axis,), ONES, part, "norm"),
            Weight(f"{name}.bias", (width,), (axis,), ZEROS, part, "norm"),
        )


NormFunction = LayerNorm
"""The closed union of norm functions; ``nn.norm`` builds them."""


class PostNorm(Node):
    """norm(x + f(x)): the last layer's output is normalised already (BERT).

    ``embeddings``: the sum of the embeddings is normalised too; not in Transformer-XL and XLNet.
    """

    kind: Literal["post"] = "post"
    eps: Epsilon = 1e-12  # BERT: tf.contrib.layers.layer_norm; Hugging Face layer_norm_eps
    embeddings: bool = True
    positional = ("eps",)

    @property
    def function(self) -> NormFunction:
        """The norm of layers and embeddings."""
        return LayerNorm(eps=self.eps)

    @property
    def head_function(self) -> NormFunction:
        """The norm in heads."""
        return self.function


class PreNorm(Node):
    """x + f(norm(x)), with a norm after the last layer (StackingBERT, Megatron BERT).

    ``affine=False``: these norms have no scale and shift (StackingBERT, --no-normalize-affine).
    """

    kind: Literal["pre"] = "pre"
    eps: Epsilon = 1e-5  # Megatron-LM --layernorm-epsilon
    affine: bool = True
    positional = ("eps",)

    @property
    def function(self) -> NormFunction:
        """The norm of the layers, and the one after them."""
        return LayerNorm(eps=self.eps, affine=self.affine)

    @property
    def head_function(self) -> NormFunction:
        """The norm in heads, always affine."""
        return LayerNorm(eps=self.eps)


Norm = Annotated[PostNorm | PreNorm, Field(discriminator="kind")]
"""The closed union of norm placements."""
