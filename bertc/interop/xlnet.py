"""XLNet's Hugging Face layout: what it can say, its settings, and how its tensors lie.

Axes of its tensors: h hidden, n heads, d head_dim. bertc's are (n * d, h), as every map's.
"""

import math
from typing import TYPE_CHECKING, Any

from bertc.interop.obstacle import Obstacle
from bertc.ir.attention import RelativeAttention
from bertc.ir.encoder import Encoder

if TYPE_CHECKING:
    from torch import Tensor

_INWARD = ("query.weight", "key.weight", "value.weight", "distance.weight")
_BY_HEAD = ("content_bias", "distance_bias", "segment_bias", "segment", "output.weight")


def xlnet_obstacle(encoder: Encoder, attention: RelativeAttention, tuned: bool) -> Obstacle | None:
    """What stands in the way of XLNetModel, if anything does; tasks hide no token from others."""
    if not attention.untie or not attention.segments:
        return Obstacle(
            "attention=relative",
            "of the layouts only XLNet's has it, as relative(untie=true, segments=true)",
        )
    first, rates = encoder.layers[0], encoder.dropout
    tells_unseen = encoder.two_streams or tuned
    layers = range(len(encoder.layers))
    own = tuple(layers)
    equal = {rates.hidden, rates.attention, rates.ffn, rates.last} == {rates.hidden}
    plain = encoder.table.kind == "whole" and not encoder.table.scaled
    for setting, differs, why in (
        ("causal", encoder.causal, "sees in both directions"),
        ("objective", not tells_unseen, "has a vector for tokens unseen, which plm learns"),
        ("positions", encoder.positions.kind != "none", "has no table of positions"),
        ("segments", encoder.segments > 0, "adds no token type to a token"),
        ("language_embeddings", bool(encoder.languages), "adds no language to a token"),
        ("table", not plain, "has one table, as it is"),
        ("embedding", encoder.factorised, "has a table as wide as the layers"),
        ("share", (encoder.attention_owner, encoder.ffn_owner) != (own, own), "shares no layer"),
        ("norm", encoder.norm.kind != "post", "norms after each part"),
        ("norm", encoder.norms_embeddings, "norms no embeddings"),
        ("dropout", not equal, "has one rate for all"),
        ("head", encoder.head.kind != "linear" or not encoder.head.bias, "is the table and a bias"),
        ("heads", len(set(encoder.layers)) > 1, "has equal layers"),
        ("head_dim", first.heads * first.head_dim != encoder.hidden, "is hidden / heads"),
    ):
        if differs:
            return Obstacle(setting, f"the XLNet layout {why}")
    return None


def stored_shape(encoder: Encoder, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that the layout has for a weight of ours."""
    by_head = (encoder.layers[0].heads, encoder.layers[0].head_dim)
    if name.endswith("embeddings.unseen"):
        return (1, 1, *shape)
    if not name.startswith("encoder.attention."):
        return shape
    if name.endswith(_INWARD):
        return (shape[1], *by_head)
    return (*shape[:-1], *by_head) if name.endswith(_BY_HEAD) else shape


def stored(encoder: Encoder, name: str, tensor: "Tensor") -> "Tensor":
    """A tensor of ours as the layout has it."""
    turned = tensor.T if name.endswith(_INWARD) else tensor
    return turned.reshape(stored_shape(encoder, name, tuple(tensor.shape)))


def taken(name: str, tensor: "Tensor", shape: tuple[int, ...]) -> "Tensor":
    """A tensor of the layout as ours of a shape."""
    if name.startswith("encoder.attention.") and name.endswith(_INWARD):
        return tensor.reshape(shape[1], shape[0]).T.contiguous()
    assert tensor.numel() == math.prod(shape), f"{name} was checked before"
    return tensor.reshape(shape)


def xlnet_config(encoder: Encoder, pad: int) -> dict[str, Any]:
    """The settings that XLNetConfig names in its own way."""
    assert isinstance(encoder.attention, RelativeAttention), "as the layout says"
    return {
        "d_model": encoder.hidden,
        "n_layer": len(encoder.layers),
        "n_head": encoder.layers[0].heads,
        "d_head": encoder.layers[0].head_dim,
        "d_inner": encoder.layers[0].ffn,
        "dropout": encoder.dropout.hidden,
        "clamp_len": encoder.attention.clamp or -1,
        "attn_type": "bi",
        "bi_data": False,
        "same_length": False,
        "pad_token_id": pad,
    }
