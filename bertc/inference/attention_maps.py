"""Attention maps of a model, and what each head looks at.

Axes: b batch, s sequence, q queries, k keys, n heads, w widths of all heads, h hidden.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from bertc.nn import EncoderInputs, Model
from bertc.nn.attend import split_heads
from bertc.nn.body import Outputs
from bertc.nn.encoder import Encoder
from bertc.nn.layer import ProjectedAttention

MOST = 0.5
"""The share of its attention by which a head has a pattern."""
TINY = 1e-30


@dataclass
class Looks:
    """Sums over queries of what each head of a layer (n,) looks at, as shares of its attention.

    ``entropy`` is in nats, ``distance`` in tokens; ``diagonal`` is on the token itself and its
    neighbours, ``vertical`` on [CLS] and [SEP], ``either`` on any of both; ``block`` is the overlap
    with even attention to the token's own segment, where a row has two.
    """

    entropy: Tensor
    distance: Tensor
    cls: Tensor
    sep: Tensor
    itself: Tensor
    next: Tensor
    previous: Tensor
    diagonal: Tensor
    vertical: Tensor
    either: Tensor
    block: Tensor

    def add(self, added: "Looks") -> None:
        """Add the sums of other rows."""
        for name, values_n in vars(added).items():
            setattr(self, name, getattr(self, name) + values_n)

    def means(self, queries: int) -> list[dict[str, float]]:
        """The mean of each over queries, a dict a head."""
        columns = {name: (sums / max(1, queries)).tolist() for name, sums in vars(self).items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def pattern(means: dict[str, float]) -> str:
    """The pattern of Kovaleva et al. 2019, 4.1, that has most of a head's attention."""
    shares = {name: means[name] for name in ("vertical", "diagonal", "block")}
    name = max(shares, key=lambda each: shares[each])
    if shares[name] >= MOST:
        return name
    return "vertical and diagonal" if means["either"] >= MOST else "heterogeneous"


See = Callable[[int, Tensor], None]
"""A function of a layer, counted from 0, and its map (b, n, q, k)."""


@torch.no_grad()
def maps(model: Model, reading: EncoderInputs, see: See) -> Outputs:
    """Read rows, and hand the attention of every layer to ``see`` as it is computed.

    Keys of a memory stand before those of the row, queries of the query stream after its own.
    """
    body, layers = model.encoder, count()
    assert isinstance(body, Encoder), "asked for of transformers alone"
    whole = reading._replace(output_positions=None, decoded_positions=None, starts=None)
    parts = body.attention.values()
    hooks = [part.register_forward_pre_hook(partial(_look, see, layers)) for part in parts]
    try:
        with torch.compiler.set_stance("force_eager"):
            return model.read_on(whole)
    finally:
        for hook in hooks:
            hook.remove()


def _look(see: See, layers: "count[int]", part: nn.Module, inputs: tuple[Any, ...]) -> None:
    assert isinstance(part, ProjectedAttention), "every kind projects queries, keys and values"
    see(next(layers), probabilities(part, *inputs))


def probabilities(
    part: ProjectedAttention[Any, Any], x_bqh: Tensor, keys_bkh: Tensor | None, context: Any
) -> Tensor:
    """The attention (b, n, q, k) of a layer, of whichever kind.

    Where the value of each key is a unit vector, weighted values are the weights.
    """
    projected = part.project(x_bqh, keys_bkh, context)
    b, k, _ = projected.keys.shape
    units_kw = torch.eye(k, dtype=x_bqh.dtype, device=x_bqh.device).repeat(1, part.heads)
    mixed: list[Tensor] = []

    def taken(output: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        """Keep what the heads give, and go on with zeros of the width that they have else."""
        mixed.append(inputs[0])
        width = projected.values.shape[2]
        return (inputs[0].new_zeros(*inputs[0].shape[:2], width),)

    hook = part.get_submodule("output").register_forward_pre_hook(taken)
    try:
        part.mix(projected._replace(values=units_kw.expand(b, -1, -1)), context)
    finally:
        hook.remove()
    return split_heads(mixed[0].float(), part.heads)


def unpadded(reading: EncoderInputs) -> Tensor:
    """True (b, s) at tokens that are no padding."""
    if reading.attention_mask is not None:
        return reading.attention_mask.bool()
    if reading.sequence_ids is not None:
        return reading.sequence_ids > 0
    return torch.ones_like(reading.token_ids, dtype=torch.bool)


def looks(map_bnqk: Tensor, reading: EncoderInputs, cls: int, sep: int) -> Looks:
    """Sum what the heads of a layer look at over the real queries of a batch."""
    ids_bs, real_bs = reading.token_ids, unpadded(reading)
    places = torch.arange(ids_bs.shape[1], device=ids_bs.device)
    apart_qk = places[None, :] - places[:, None]
    is_cls, is_sep = ((ids_bs == token)[:, None, None, :] for token in (cls, sep))
    near = apart_qk.abs() <= 1

    def summed(values: Tensor) -> Tensor:
        """Over keys, then over real queries of all rows: (n,)."""
        return (values.sum(-1) * real_bs[:, None]).sum((0, 2)).double().cpu()

    return Looks(
        entropy=summed(-map_bnqk * map_bnqk.clamp(min=TINY).log()),
        distance=summed(map_bnqk * apart_qk.abs()),
        cls=summed(map_bnqk * is_cls),
        sep=summed(map_bnqk * is_sep),
        itself=summed(map_bnqk * (apart_qk == 0)),
        next=summed(map_bnqk * (apart_qk == 1)),
        previous=summed(map_bnqk * (apart_qk == -1)),
        diagonal=summed(map_bnqk * near),
        vertical=summed(map_bnqk * (is_cls | is_sep)),
        either=summed(map_bnqk * (is_cls | is_sep | near)),
        block=summed(torch.minimum(map_bnqk, _even_blocks(reading, real_bs)[:, None])),
    )


def _even_blocks(reading: EncoderInputs, real_bs: Tensor) -> Tensor:
    """Even attention (b, q, k) to the query's own segment; zeros for rows of one segment."""
    segments_bs = reading.segment_ids
    if segments_bs is None:
        return torch.zeros(*real_bs.shape, real_bs.shape[1], device=real_bs.device)
    same_bqk = (segments_bs[:, :, None] == segments_bs[:, None, :]) & real_bs[:, None, :]
    two_b = torch.where(real_bs, segments_bs, 0).amax(1) > 0
    even_bqk = same_bqk / same_bqk.sum(-1, keepdim=True).clamp(min=1)
    return even_bqk * two_b[:, None, None]
