"""Where the layer norms stand."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node

Epsilon = Annotated[float, Field(gt=0, le=1)]


class PostNorm(Node):
    """norm(x + f(x)), so that the last layer's output is normed already (BERT).

    ``embeddings``: what the embeddings give is normed too; Transformer-XL and XLNet leave it.
    """

    kind: Literal["post"] = "post"
    eps: Epsilon = 1e-12  # BERT: tf.contrib.layers.layer_norm; Hugging Face layer_norm_eps
    embeddings: bool = True
    positional = ("eps",)


class PreNorm(Node):
    """x + f(norm(x)), with one norm after the last layer (StackingBERT, Megatron BERT).

    Not ``affine``: these norms have no scale and shift (StackingBERT, --no-normalize-affine).
    """

    kind: Literal["pre"] = "pre"
    eps: Epsilon = 1e-5  # Megatron-LM --layernorm-epsilon
    affine: bool = True
    positional = ("eps",)


Norm = Annotated[PostNorm | PreNorm, Field(discriminator="kind")]
