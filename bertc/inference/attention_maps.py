"""Attention maps of a model, and what each head looks at.

Axes: b batch, s sequence, q queries, k keys, n heads, d head_dim, h hidden.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bertc.diagnostics import DataError
from bertc.ir.network.encoder import Encoder as EncoderNode
from bertc.ir.network.wanted import Wanted
from bertc.ir.program.network import MAIN
from bertc.nn import EncoderInputs, Model
from bertc.nn.attend import split_heads
from bertc.nn.encoder import Encoder

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


@torch.no_grad()
def maps(model: Model, reading: EncoderInputs) -> Iterator[Tensor]:
    """The attention (b, n, q, k) of each layer, from its input states.

    Raises:
        DataError: if scores depend on more than queries and keys.
    """
    body = model.encoder
    assert isinstance(body, Encoder), "asked for of transformers alone"
    _refuse_biased(body.node)
    layers = range(1, body.node.depth + 1)
    whole = reading._replace(output_positions=None, starts=None)
    projections = model.read_on(whole, MAIN, Wanted(projections=tuple(layers))).projections
    assert projections is not None, "they are wanted"
    mask_bqk = _allowed(whole, body.node.causal)
    for layer in layers:
        heads, reach = body.node.layers[layer - 1].heads, body.node.attention.at(layer - 1).reach
        query, key = (
            split_heads(each.float(), heads)
            for each in (projections[layer].queries, projections[layer].keys)
        )
        scores_bnqk = query @ key.mT * query.shape[-1] ** -0.5
        near_bqk = mask_bqk if reach is None else mask_bqk.tril(reach).triu(-reach)
        yield scores_bnqk.masked_fill(~near_bqk[:, None], -torch.inf).softmax(-1).nan_to_num()


def _refuse_biased(node: EncoderNode) -> None:
    for setting, kind, biased in (
        ("attention", node.attention.kind, node.attention.knows_distances),
        ("positions", node.positions.kind, node.positions.biases_scores),
    ):
        if biased:
            raise DataError(
                f"{setting} = {kind} weighs distances beside queries and keys",
                help="name a run whose scores are products of these two, as with attention=full",
            )


def _allowed(reading: EncoderInputs, causal: bool) -> Tensor:
    """True (b, q, k) at the keys that a query attends to."""
    ids_bs = reading.token_ids
    real_bs = unpadded(reading)
    mask_bqk = real_bs[:, None, :].expand(-1, ids_bs.shape[1], -1)
    if reading.sequence_ids is not None:
        ids = reading.sequence_ids
        mask_bqk = mask_bqk & (ids[:, :, None] == ids[:, None, :])
    return mask_bqk.tril() if causal else mask_bqk


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
