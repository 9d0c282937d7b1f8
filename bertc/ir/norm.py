"""Where the layer norms stand."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node

Epsilon = Annotated[float, Field(gt=0, le=1)]


class PostNorm(Node):
    """norm(x + f(x)): the embeddings are normed too, the last layer's output already is (BERT)."""

    kind: Literal["post"] = "post"
    eps: Epsilon = 1e-12  # BERT: tf.contrib.layers.layer_norm; Hugging Face layer_norm_eps
    positional = ("eps",)


class PreNorm(Node):
    """x + f(norm(x)), with one norm after the last layer (StackingBERT, Megatron BERT)."""

    kind: Literal["pre"] = "pre"
    eps: Epsilon = 1e-5  # Megatron-LM --layernorm-epsilon
    positional = ("eps",)


Norm = Annotated[PostNorm | PreNorm, Field(discriminator="kind")]
