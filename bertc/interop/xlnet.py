"""XLNet's Hugging Face layout: what it can say, its settings, and how its tensors lie.

Axes of its tensors: h hidden, n heads, d head_dim. bertc's are (n * d, h), as every map's.
"""

import math
from typing import TYPE_CHECKING, Any

from bertc.interop.obstacle import Obstacle, first_of
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.network.encoder import Encoder

if TYPE_CHECKING:
    from torch import Tensor

_RELATIVE = "attention=relative(untie=true, segments=true)"
_INWARD = ("query.weight", "key.weight", "value.weight", "distance.weight")
_BY_HEAD = ("content_bias", "distance_bias", "segment_bias", "segment", "output.weight")


def xlnet_obstacle(encoder: Encoder, attention: RelativeAttention, tuned: bool) -> Obstacle | None:
    """What stands in the way of XLNetModel, if anything does; tasks hide no token from others."""
    tells_unseen = encoder.two_streams or tuned
    if not attention.untie or not attention.segments:
        return Obstacle(
            "attention=relative",
            f"of the layouts only XLNet's has it, as {_RELATIVE.removeprefix('attention=')}",
            _RELATIVE if tells_unseen else "attention=full",
        )
    if not tells_unseen:
        why = "the XLNet layout has a vector for tokens unseen, which plm learns"
        return Obstacle("objective", why, "attention=full")
    return first_of(_differences(encoder))


def without_distances(encoder: Encoder) -> Obstacle:
    """Two streams of an encoder with another attention than XLNet's."""
    why = "of the layouts only XLNet's has two streams"
    streams = Obstacle("objective=plm", why, _RELATIVE)
    return first_of([streams, *_differences(encoder)]) or streams


def _differences(encoder: Encoder) -> list[Obstacle]:
    """Settings that XLNetModel has otherwise."""
    first, rates = encoder.layers[0], encoder.dropout
    own = tuple(range(len(encoder.layers)))
    equal = {rates.hidden, rates.attention, rates.ffn, rates.last} == {rates.hidden}
    rate = ", ".join([f"{rates.hidden:g}"] * 4)
    norm = "norm=post(embeddings=false)"
    fills = first.heads * first.head_dim == encoder.hidden
    linear = encoder.head.kind == "linear" and encoder.head.bias
    width = "" if encoder.hidden % first.heads else f"head_dim={encoder.hidden // first.heads}"
    rows = (
        (encoder.positions.kind != "none", "has no table of positions", "positions=none"),
        (encoder.segments > 0, "adds no token type to a token", "segments=0"),
        (bool(encoder.languages), "adds no language to a token", "language_embeddings=false"),
        (encoder.factorised, "has a table as wide as the layers", f"embedding={encoder.hidden}"),
        (
            (encoder.attention_owner, encoder.ffn_owner) != (own, own),
            "shares no layer",
            "share=none",
        ),
        (encoder.norm.kind != "post", "norms after each part", norm),
        (encoder.norms_embeddings, "norms no embeddings", norm),
        (not equal, "has one rate for all", f"dropout=dropout({rate})"),
        (not linear, "is the table and a bias", "head=linear"),
        (
            len({layer.heads for layer in encoder.layers}) > 1,
            "has equal layers",
            f"heads={first.heads}",
        ),
        (len({layer.ffn for layer in encoder.layers}) > 1, "has equal layers", f"ffn={first.ffn}"),
        (not fills, "is hidden / heads", width or "head_dim"),
    )
    return [
        Obstacle(mend.partition("=")[0], f"the XLNet layout {why}", mend if "=" in mend else "")
        for differs, why, mend in rows
        if differs
    ]


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
