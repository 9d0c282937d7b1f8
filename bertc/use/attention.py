"""Attention maps of a model, of whichever kind its attention is.

Axes: b batch, s sequence, q queries, k keys, n heads, w widths of all heads, h hidden.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertc.model import EncoderInputs, Model
from bertc.model.attend import split_heads
from bertc.model.body import Outputs
from bertc.model.encoder import Encoder
from bertc.model.layer import ProjectedAttention


class AttentionMaps(NamedTuple):
    """The tokens (s) of a text, and a map (n, q, k) for each layer.

    A map has the share of its attention that a head pays to each key; ``is_cut``: the text is
    longer than the tokens.
    """

    tokens: tuple[str, ...]
    maps: tuple[Tensor, ...]
    is_cut: bool


@torch.no_grad()
def see_maps(model: Model, reading: EncoderInputs) -> tuple[Outputs, list[Tensor]]:
    """Read rows; the outputs, and the attention (b, n, q, k) of every layer.

    Keys of a memory precede those of the row, queries of the query stream follow its own.
    """
    body, maps = model.encoder, list[Tensor]()
    assert isinstance(body, Encoder), "asked for of transformers alone"
    rows = reading._replace(output_positions=None, decoded_positions=None, starts=None)
    parts = body.attention.values()

    def look(part: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(part, ProjectedAttention), "every kind projects queries, keys and values"
        maps.append(_probabilities(part, *inputs))

    hooks = [part.register_forward_pre_hook(look) for part in parts]
    try:
        with torch.compiler.set_stance("force_eager"):
            return model.read_on(rows), maps
    finally:
        for hook in hooks:
            hook.remove()


def _probabilities(
    part: ProjectedAttention[Any, Any], x_bqh: Tensor, keys_bkh: Tensor | None, context: Any
) -> Tensor:
    """The attention (b, n, q, k) of a layer: with unit vectors as values, sums are the weights."""
    projected = part.project(x_bqh, keys_bkh, context)
    b, k, _ = projected.keys.shape
    units_kw = torch.eye(k, dtype=x_bqh.dtype, device=x_bqh.device).repeat(1, part.heads)
    mixed: list[Tensor] = []

    def take(output: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        """Take what the heads give, and go on with zeros of the width that they usually have."""
        mixed.append(inputs[0])
        width = projected.values.shape[2]
        return (inputs[0].new_zeros(*inputs[0].shape[:2], width),)

    hook = part.get_submodule("output").register_forward_pre_hook(take)
    try:
        part.mix(projected._replace(values=units_kw.expand(b, -1, -1)), context)
    finally:
        hook.remove()
    return split_heads(mixed[0].float(), part.heads)
