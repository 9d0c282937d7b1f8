"""Position kinds: vectors added to token embeddings, or what attention makes of positions.

Axes: b batch, s sequence, e embedding, l positions or distances, q queries, k keys, h hidden,
n heads, d head_dim, p pairs of numbers of a head.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from bertc.ir.network import positions as nodes
from bertc.ir.network.angles import SlowerTurns
from bertc.ir.network.positions import Positions
from bertc.model.attention.masks import Blocks, Mask
from bertc.model.inputs import EncoderInputs
from bertc.model.native.kernels import kernels_for, with_gradient
from bertc.model.own import OwnModule
from bertc.model.weights import Embedding, Table, parameter


class LearnedPositions(Embedding):
    """Rows of a table, starting at ``offset``."""

    def __init__(self, table: Table, name: str, node: nodes.TablePositions) -> None:
        super().__init__(table, name)
        self.offset, self.padding = node.offset, node.padding

    def added(self, x_bse: Float[Tensor, "b s e"], inputs: EncoderInputs) -> Tensor:
        """The positions' vectors, (s, e) or (b, s, e)."""
        ids_bs = position_ids(inputs)
        if self.padding >= 0 and inputs.position_ids is None:
            ids_bs = counted_positions(inputs, self.padding).clamp(min=-min(1, self.offset))
        if ids_bs is None:
            return self.weight[self.offset : self.offset + x_bse.shape[1]]
        return cast(Tensor, self(self.offset + ids_bs))


class SinusoidalPositions(nn.Module):
    """Sines and cosines of the position, times a learned number if there is one."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        scale = table.get(f"{name}.scale")
        self.scale = None if scale is None else parameter(scale)

    def added(self, x_bse: Float[Tensor, "b s e"], inputs: EncoderInputs) -> Tensor:
        """The positions' vectors, (s, e) or (b, s, e)."""
        _, seq, width = x_bse.shape
        waves_se = sinusoids(torch.arange(seq, device=x_bse.device).float(), width)
        waves_se = waves_se if self.scale is None else waves_se * self.scale
        ids_bs = position_ids(inputs)
        return waves_se if ids_bs is None else waves_se[ids_bs]


def build_positions(
    table: Table, name: str, node: Positions
) -> LearnedPositions | SinusoidalPositions | OwnModule | None:
    """Build the positions of this name by their kind; None if embeddings have none."""
    match node:
        case nodes.LearnedPositions() | nodes.BucketedPositions():
            return LearnedPositions(table, name, node)
        case nodes.SinusoidalPositions():
            return SinusoidalPositions(table, name)
        case nodes.OwnPositions():
            return None if node.in_attention else OwnModule(table, name, node)
        case nodes.NoPositions() | nodes.RotaryPositions() | nodes.AlibiPositions():
            return None


class Angles(NamedTuple):
    """Cosines and sines of the angles of positions, for pairs of numbers of every head."""

    cosines: Float[Tensor, "#b l 1 p"]
    sines: Float[Tensor, "#b l 1 p"]

    def at(self, positions_bq: Int[Tensor, "b q"]) -> "Angles":
        """The angles of some positions of each row."""
        b = positions_bq.shape[0]  # len() is a constant to the exporter
        lanes_b1 = torch.arange(b, device=positions_bq.device)[:, None]
        return Angles(*(x.expand(b, -1, -1, -1)[lanes_b1, positions_bq] for x in self))


class Rotation(NamedTuple):
    """Angles by which queries and keys turn, pair by pair (Su et al. 2021, 3.2)."""

    queries: Angles
    keys: Angles
    interleaved: bool

    def select_queries(self, at_bq: Int[Tensor, "b q"]) -> "Rotation":
        """The same of the queries at some positions."""
        return self._replace(queries=self.queries.at(at_bq))

    def turned(self, x_blnd: Float[Tensor, "b l n d"], angles: Angles) -> Float[Tensor, "b l n d"]:
        """Heads of queries or keys after their turns."""
        kernels = kernels_for(x_blnd)
        if kernels is not None:
            turn = partial(kernels.turn, adjacent=self.interleaved)
            there, back = partial(turn, *angles, way=1), partial(turn, way=-1)
            return with_gradient(there, back, angles, x_blnd)
        cosines, sines = (x.to(x_blnd.dtype) for x in angles)
        pairs = cosines.shape[-1]
        turning, still = x_blnd[..., : 2 * pairs], x_blnd[..., 2 * pairs :]
        if self.interleaved:
            first, second = turning[..., ::2], turning[..., 1::2]
        else:
            first, second = turning[..., :pairs], turning[..., pairs:]
        both = first * cosines - second * sines, second * cosines + first * sines
        if self.interleaved:
            return torch.cat([torch.stack(both, dim=-1).flatten(-2), still], dim=-1)
        return torch.cat([*both, still], dim=-1)


class Distances(NamedTuple):
    """Positions of queries and keys, of whose distance each head takes a multiple off its scores.

    Press et al. 2022, section 3. With ``biases``, by distance from the farthest key ahead to the
    farthest behind, it adds its own instead.
    """

    queries: Int[Tensor, "#b q"]
    keys: Int[Tensor, "#b k"]
    biases: Float[Tensor, "l n"] | None = None

    def select_queries(self, at_bq: Int[Tensor, "b q"]) -> "Distances":
        """The same of the queries at some positions."""
        queries_bq = self.queries.expand(at_bq.shape[0], -1).gather(1, at_bq)
        return self._replace(queries=queries_bq)

    def added(self, heads: int, mask: Mask | Blocks, dtype: torch.dtype) -> Mask | Blocks:
        """The mask with scores to add to those of ``heads`` heads."""
        if isinstance(mask, Blocks):
            blocks = -(-self.keys.shape[1] // mask.allowed.shape[2])
            own_bs11 = self.keys.expand(len(mask.allowed) // blocks, -1)[..., None, None]
            apart_bnqk = mask.queries(own_bs11) - mask.keys(own_bs11).mT
        else:
            apart_bnqk = (self.queries[:, :, None] - self.keys[:, None, :])[:, None]
        if self.biases is None:
            far_bnqk = apart_bnqk.abs().float()
            scores_bnqk = far_bnqk * -slopes(heads, far_bnqk)[:, None, None]
        else:
            farthest = len(self.biases) // 2
            row_bqk = apart_bnqk[:, 0].clamp(-farthest, farthest) + farthest
            scores_bnqk = F.embedding(row_bqk, self.biases).movedim(3, 1)
        if mask.allowed is not None:
            scores_bnqk = scores_bnqk.masked_fill(~mask.allowed, -torch.inf)
        return mask._replace(allowed=scores_bnqk.to(dtype))


class PlacedHeads(NamedTuple):
    """Positions of queries and keys, for a module of the user's own that changes both."""

    queries: Int[Tensor, "b q"]
    keys: Int[Tensor, "b k"]

    def select_queries(self, at_bq: Int[Tensor, "b q"]) -> "PlacedHeads":
        """The same of the queries at some positions."""
        return self._replace(queries=self.queries.gather(1, at_bq))


def related_by(
    node: Positions, width: int, windowed: bool, inputs: EncoderInputs, shared: Mapping[str, Tensor]
) -> Rotation | Distances | PlacedHeads | None:
    """Turns or distances for heads of ``width``, if any; ``windowed``: only near keys are read."""
    if not node.in_attention:
        return None
    # Only distances within an example count, so that positions need not begin again with each.
    at_bs = inputs.position_ids
    if at_bs is None:
        at_bs = torch.arange(inputs.token_ids.shape[1], device=inputs.token_ids.device)[None]
    at_bq = inputs.in_queries(at_bs)
    match node:
        case nodes.RotaryPositions():
            theta = node.local_theta if windowed else node.theta
            keys, queries = (_angles(node, theta, width, ids) for ids in (at_bs, at_bq))
            return Rotation(queries, keys, node.pairs == "interleaved")
        case nodes.AlibiPositions():
            return Distances(at_bq, at_bs)
        case nodes.BucketedPositions():
            distances = range(-node.distance, node.distance + 1)
            rows = torch.tensor([*map(node.row_of, distances)], device=at_bs.device)
            biases_ln = F.embedding(rows, shared["relative.distance.weight"])
            return Distances(at_bq, at_bs, biases_ln)
        case nodes.OwnPositions():
            places_bs = places(inputs)
            return PlacedHeads(inputs.in_queries(places_bs), places_bs)
        case nodes.LearnedPositions() | nodes.SinusoidalPositions() | nodes.NoPositions():
            return None


def _angles(
    node: nodes.RotaryPositions, theta: float, wide: int, positions_bl: Int[Tensor, "#b l"]
) -> Angles:
    turned = node.rotary_dims(wide)
    powers_p = torch.arange(0, turned, 2, device=positions_bl.device).float() / turned
    rates_p = theta**-powers_p
    rates_p = rates_p.half().float() if node.rates == "fp16" else rates_p
    scaled = node.scaled
    if isinstance(scaled, SlowerTurns):
        rates_p = rates_p * torch.tensor(scaled.speeds(theta, turned), device=rates_p.device)
    angles_blp = (positions_bl.float() / node.scale)[..., None] * rates_p
    waves = Angles(angles_blp.cos()[:, :, None], angles_blp.sin()[:, :, None])
    return waves if scaled.magnitude == 1 else Angles(*(scaled.magnitude * x for x in waves))


def slopes(heads: int, like: Tensor) -> Float[Tensor, "{heads}"]:
    """Slopes of ALiBi's heads: 2^(-8 i / n), and those between of twice as many heads."""
    power = 1 << (heads.bit_length() - 1)
    steps = torch.arange(1, power + 1, device=like.device).to(like.dtype) / power
    between = torch.arange(heads - power, device=like.device).to(like.dtype) / power
    return torch.exp2(-8 * torch.cat([steps, between + 0.5 / power]))


def position_ids(inputs: EncoderInputs) -> Int[Tensor, "b s"] | None:
    """Positions (b, s) of the tokens; None: in order, from 0."""
    if inputs.position_ids is not None:
        return inputs.position_ids
    return None if inputs.sequence_ids is None else restarting_positions(inputs.sequence_ids)


def places(inputs: EncoderInputs) -> Int[Tensor, "b s"]:
    """Positions (b, s) of the tokens, from 0 in each document."""
    ids_bs, tokens_bs = position_ids(inputs), inputs.token_ids
    in_order_s = torch.arange(tokens_bs.shape[1], device=tokens_bs.device)
    return (in_order_s if ids_bs is None else ids_bs).expand_as(tokens_bs)


def counted_positions(inputs: EncoderInputs, padding: int) -> Int[Tensor, "b s"]:
    """Positions (b, s) of the tokens, of which those with the id ``padding`` are none: -1."""
    real_bs = inputs.token_ids != padding
    count_bs = real_bs.cumsum(1) - real_bs.long()
    if inputs.sequence_ids is not None:
        count_bs = restarting_positions(inputs.sequence_ids, count_bs)
    return count_bs.masked_fill(~real_bs, -1)


def restarting_positions(
    sequence_ids_bs: Int[Tensor, "b s"], count_bs: Int[Tensor, "#b s"] | None = None
) -> Int[Tensor, "b s"]:
    """Positions (b, s), or other counts, that restart with each contiguous run of one number."""
    if count_bs is None:
        count_bs = torch.arange(sequence_ids_bs.shape[1], device=sequence_ids_bs.device)[None]
    begins_bs = F.pad(sequence_ids_bs.diff(dim=1) != 0, (1, 0), value=True)
    return count_bs - torch.where(begins_bs, count_bs, 0).cummax(1).values


def sinusoids(positions_l: Float[Tensor, "l"], width: int) -> Float[Tensor, "l {width}"]:
    """Sines, then cosines, of positions (l,), at wavelengths of 2 pi to 20,000 pi, (l, width)."""
    powers = torch.arange(0, width, 2, device=positions_l.device).float() / width
    angles = positions_l[:, None] * (1e4**-powers)
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]


def encode_distances(
    clamp: int, inputs: EncoderInputs, like_bqh: Float[Tensor, "b q h"]
) -> Float[Tensor, "*ways l h"]:
    """Sines, then cosines, of the distances from the first key behind to the last ahead, (l, h).

    Encoded as in Transformer-XL (mem_transformer.py, PositionalEmbedding). If some rows are
    reversed the negated distances follow: (2, l, h) (XLNet modeling.py, bi_data). Distances are
    clamped at ``clamp``; 0: not clamped.
    """
    seq = inputs.token_ids.shape[1]
    keys, ahead = inputs.remembered + seq, 1 if inputs.causal else seq
    far_l = torch.arange(keys - 1, -ahead - 1, -1, device=like_bqh.device).float()
    if clamp:
        far_l = far_l.clamp(-clamp, clamp)
    if inputs.backward is not None:
        ways = torch.stack([sinusoids(way_l, like_bqh.shape[2]) for way_l in (far_l, -far_l)])
        return ways.to(like_bqh.dtype)
    return sinusoids(far_l, like_bqh.shape[2]).to(like_bqh.dtype)
