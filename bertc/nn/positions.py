"""Position kinds: vectors added to token embeddings.

Axes: b batch, s sequence, e embedding, l positions or distances, q queries, h hidden.
"""

from typing import assert_never, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import nn

from bertc.ir.network.positions import LearnedPositions as LearnedNode
from bertc.ir.network.positions import NoPositions as NoneNode
from bertc.ir.network.positions import Positions
from bertc.ir.network.positions import SinusoidalPositions as SinusoidalNode
from bertc.nn.inputs import EncoderInputs
from bertc.nn.weights import Embedding, Table


class LearnedPositions(Embedding):
    """Rows of a table, starting at ``offset``."""

    def __init__(self, table: Table, name: str, node: LearnedNode) -> None:
        super().__init__(table, name)
        self.offset = node.offset

    def added(self, x_bse: Float[torch.Tensor, "b s e"], inputs: EncoderInputs) -> torch.Tensor:
        """The positions' vectors, (s, e) or (b, s, e)."""
        at = position_ids(inputs)
        if at is None:
            return self.weight[self.offset : self.offset + x_bse.shape[1]]
        return cast(torch.Tensor, self(self.offset + at))


class SinusoidalPositions(nn.Module):
    """Sines and cosines of the position."""

    def added(self, x_bse: Float[torch.Tensor, "b s e"], inputs: EncoderInputs) -> torch.Tensor:
        """The positions' vectors, (s, e) or (b, s, e)."""
        _, seq, width = x_bse.shape
        waves_se = sinusoids(torch.arange(seq, device=x_bse.device).float(), width)
        at = position_ids(inputs)
        return waves_se if at is None else waves_se[at]


def build_positions(
    table: Table, name: str, node: Positions
) -> LearnedPositions | SinusoidalPositions | None:
    """Build the positions of this name by their kind; None if embeddings have none."""
    match node:
        case LearnedNode():
            return LearnedPositions(table, name, node)
        case SinusoidalNode():
            return SinusoidalPositions()
        case NoneNode():
            return None
        case _:
            assert_never(node)


def position_ids(inputs: EncoderInputs) -> Int[torch.Tensor, "b s"] | None:
    """Positions (b, s) of the tokens; None: in order, from 0."""
    if inputs.position_ids is not None:
        return inputs.position_ids
    return None if inputs.sequence_ids is None else restarting_positions(inputs.sequence_ids)


def restarting_positions(sequence_ids_bs: Int[torch.Tensor, "b s"]) -> Int[torch.Tensor, "b s"]:
    """Positions (b, s) that restart with each contiguous run of one number."""
    lane_s = torch.arange(sequence_ids_bs.shape[1], device=sequence_ids_bs.device)
    begins_bs = F.pad(sequence_ids_bs.diff(dim=1) != 0, (1, 0), value=True)
    return lane_s - torch.where(begins_bs, lane_s, 0).cummax(1).values


def sinusoids(
    positions_l: Float[torch.Tensor, "l"], width: int
) -> Float[torch.Tensor, "l {width}"]:
    """Sines, then cosines, of positions (l,), at wavelengths of 2 pi to 20,000 pi, (l, width)."""
    powers = torch.arange(0, width, 2, device=positions_l.device).float() / width
    angles = positions_l[:, None] * (1e4**-powers)
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]


def encode_distances(
    clamp: int, inputs: EncoderInputs, causal: bool, like_bqh: Float[torch.Tensor, "b q h"]
) -> Float[torch.Tensor, "*ways l h"]:
    """Sines, then cosines, of the distances from the first key behind to the last ahead, (l, h).

    Encoded as in Transformer-XL (mem_transformer.py, PositionalEmbedding). If some rows are
    reversed the negated distances follow: (2, l, h) (XLNet modeling.py, bi_data). Distances are
    clamped at ``clamp``; 0: not clamped.
    """
    seq = inputs.token_ids.shape[1]
    keys, ahead = inputs.remembered + seq, 1 if causal else seq
    far_l = torch.arange(keys - 1, -ahead - 1, -1, device=like_bqh.device).float()
    if clamp:
        far_l = far_l.clamp(-clamp, clamp)
    if inputs.backward is not None:
        ways = torch.stack([sinusoids(way_l, like_bqh.shape[2]) for way_l in (far_l, -far_l)])
        return ways.to(like_bqh.dtype)
    return sinusoids(far_l, like_bqh.shape[2]).to(like_bqh.dtype)
