"""What each head makes of hidden states.

Weights come by the names of ``ir.program.model.head_weights``, and ``token`` is the table (v, e)
that the encoder reads; they are cast to the dtype of the hidden states. Axes: n rows, h hidden,
e embedding, v token ids.
"""

from collections.abc import Mapping
from typing import Literal, assert_never

import torch
import torch.nn.functional as F

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import AdaptiveHead, LinearHead, TransformHead
from bertc.nn.activation import activate
from bertc.objectives.adaptive import adaptive_logits

Weights = Mapping[str, torch.Tensor]


def token_features(
    encoder: Encoder, hidden_nh: torch.Tensor, weights: Weights, name: str
) -> torch.Tensor:
    """What the token table turns into scores, (n, e), by the kind of head; ``name`` is its own."""
    match encoder.head:
        case TransformHead():
            return _dense_norm(encoder, hidden_nh, weights, f"{name}.dense", f"{name}.norm")
        case LinearHead():
            return _affine(hidden_nh, weights, f"{name}.dense") if encoder.factorised else hidden_nh
        case AdaptiveHead():
            return hidden_nh
        case _:
            assert_never(encoder.head)


def vocabulary_bias(name: str, weights: Weights) -> torch.Tensor:
    """The bias (v,) of the scores of a head; zeros where it has none."""
    bias_v = weights.get(f"{name}.bias")
    return weights["token"].new_zeros(len(weights["token"])) if bias_v is None else bias_v


def sbo_features(
    encoder: Encoder,
    left_nh: torch.Tensor,
    right_nh: torch.Tensor,
    place_n: torch.Tensor,
    weights: Weights,
) -> torch.Tensor:
    """Two layers over both boundaries and the place between them, (n, e) (SpanBERT 3.2)."""
    place_np = weights["sbo.position.weight"].index_select(0, place_n).to(left_nh.dtype)
    x = torch.cat([left_nh, right_nh, place_np], dim=1)
    x = _dense_norm(encoder, x, weights, "sbo.first", "sbo.first_norm")
    return _dense_norm(encoder, x, weights, "sbo.second", "sbo.second_norm")


def mlm_logits(
    encoder: Encoder, hidden_nh: torch.Tensor, weights: Weights, name: str = "mlm"
) -> torch.Tensor:
    """Scores (n, v) over the vocabulary for the tokens at hidden states (n, h).

    ``name`` is the head's: that of clm and plm is of the same kind.
    """
    if isinstance(encoder.head, AdaptiveHead):
        return adaptive_logits(encoder, hidden_nh, weights, name)
    return _scores(token_features(encoder, hidden_nh, weights, name), weights, name)


def pair_logits(
    kind: Literal["nsp", "sop"], pooled_bh: torch.Tensor, weights: Weights
) -> torch.Tensor:
    """Scores (b, 2) of "in order" and "not" from pooled first tokens (b, h)."""
    return _affine(pooled_bh, weights, kind)


def rtd_logits(encoder: Encoder, hidden_bsh: torch.Tensor, weights: Weights) -> torch.Tensor:
    """Scores (b, s), above 0 where a token looks replaced, from states (b, s, h)."""
    x_bsh = activate(encoder.head_activation, _affine(hidden_bsh, weights, "rtd.dense"))
    return _affine(x_bsh, weights, "rtd").squeeze(-1)


def _affine(x: torch.Tensor, weights: Weights, name: str) -> torch.Tensor:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return F.linear(x, weight.to(x.dtype), bias.to(x.dtype))


def _dense_norm(
    encoder: Encoder, x: torch.Tensor, weights: Weights, dense: str, norm: str
) -> torch.Tensor:
    x = activate(encoder.head_activation, _affine(x, weights, dense))
    scale, shift = weights[f"{norm}.weight"].to(x.dtype), weights[f"{norm}.bias"].to(x.dtype)
    return F.layer_norm(x, scale.shape, scale, shift, encoder.norm.eps)


def _scores(features_ne: torch.Tensor, weights: Weights, head: str) -> torch.Tensor:
    dtype = features_ne.dtype
    bias_v = vocabulary_bias(head, weights).to(dtype)
    return F.linear(features_ne, weights["token"].to(dtype), bias_v)
