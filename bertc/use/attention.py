"""Attention maps of a model, of whichever kind its attention is.

Axes: b batch, s sequence, q queries, k keys, n heads, w widths of all heads, h hidden.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, UsageError
from bertc.model import EncoderInputs, Model, Outputs, Projected
from bertc.model.attention.attend import split_heads
from bertc.model.encoder import Encoder
from bertc.model.layer import ProjectedAttention


class AttentionMaps(NamedTuple):
    """The tokens (s) of a text, cut or whole, and each layer's map (n, q, k) of attention."""

    tokens: tuple[str, ...]
    maps: tuple[Tensor, ...]
    is_cut: bool


@torch.no_grad()
def see_maps(model: Model, reading: EncoderInputs) -> tuple[Outputs, list[Tensor]]:
    """Read rows; the outputs, and the attention (b, n, q, k) of every layer.

    Keys of a memory precede those of the row, queries of the query stream follow its own.

    Raises:
        DataError: if the network has no heads.
    """
    body, maps = model.encoder, list[Tensor]()
    if not isinstance(body, Encoder):
        message = f"this network is a {model.encoder.node.body_kind}, which has no attention heads"
        raise DataError(message, "name a run of a transformer")
    rows = reading._replace(output_positions=None, decoded_positions=None, starts=None)
    parts = [part for part in body.attention.values() if isinstance(part, ProjectedAttention)]
    if len(parts) < len(body.attention):
        raise UsageError("a layer has attention of your own, whose shares are not known")
    for part in parts:
        vars(part)["mix"] = partial(_look, part, maps)
    try:
        with torch.compiler.set_stance("force_eager"):
            return model.read_on(rows), maps
    finally:
        for part in parts:
            del vars(part)["mix"]


def _look(
    part: ProjectedAttention[Any, Any], maps: list[Tensor], projected: Projected, context: Any
) -> Tensor:
    """Note the attention (b, n, q, k) of a layer: with unit vectors as values, sums are weights."""
    b, k, _ = projected.keys.shape
    units_kw = torch.eye(k, dtype=projected.keys.dtype, device=projected.keys.device)
    units_bkw = units_kw.repeat(1, part.heads).expand(b, -1, -1)
    mix = type(part).mix
    shares = mix(part, projected._replace(values=units_bkw), context).float()
    maps.append(split_heads(shares, part.heads))
    return mix(part, projected, context)
