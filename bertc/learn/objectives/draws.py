"""Keyed random numbers, the same on every device; sequential draws that exclude each other."""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LAST = 2**63 - 1
"""The largest key; sorts after every key of an allowed token."""


def _wrapped(value: int) -> int:
    """An unsigned 64-bit constant as the signed integer with the same bits."""
    return value - 2**64 if value >= 2**63 else value


# Odd multipliers with well mixed bits: the fractional parts of the golden ratio and of pi, and
# the two of the splitmix64 finaliser (Steele, Lea, Flood 2014, variant 13 of Stafford).
_LANE = _wrapped(0x9E3779B97F4A7C15)
_COPY = _wrapped(0x243F6A8885A308D3)
_EXAMPLE = _wrapped(0x13198A2E03707345)
_FIRST = _wrapped(0xBF58476D1CE4E5B9)
_SECOND = _wrapped(0x94D049BB133111EB)
_ANOTHER = _wrapped(0xD1342543DE82EF95)  # a multiplier of Steele and Vigna 2021, for 64 bits
_MARK = 0x5BD1E995  # any number of 31 bits


def _mix(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Two multiply-xorshift rounds, in place; the high bits of the result are the random ones.

    A shift of a signed integer repeats the sign where splitmix64 has zeros, so x and ~x meet in
    one value. That halves the states and changes no distribution; masking would cost an operation.
    """
    x.bitwise_xor_(x >> 32)
    x.mul_(_FIRST)
    x.bitwise_xor_(x >> 29)
    x.mul_(_SECOND)
    return x


def bits(
    key: int, copies_b: Int[Tensor, "b"], example_ids_b: Int[Tensor, "b"], lanes: int
) -> Int[Tensor, "b {lanes}"]:
    """Uniform int64 (b, lanes), keyed by key, copy, example and lane. Use the high bits."""
    row_b = torch.add(example_ids_b * _EXAMPLE + key, copies_b, alpha=_COPY)
    row_b = row_b.bitwise_xor_(row_b >> 32).mul_(_FIRST)
    row_b = row_b ^ (row_b >> 29)
    # The xor keeps compilers from working out products of indices in unbounded integers.
    lane_n = (torch.arange(lanes, device=row_b.device) ^ _MARK) * _LANE
    return _mix(row_b[:, None] + lane_n)


def another(bits: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Second numbers for the same keys; their high bits are independent of the first's."""
    return bits * _ANOTHER


def unit(bits: Int[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """The top 24 bits as float32 in [0, 1); any shape."""
    return ((bits >> 40) & 0xFFFFFF) * 2.0**-24


def unit64(bits: Int[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """The top 53 bits as float64 in [0, 1); any shape."""
    return ((bits >> 11) & (2**53 - 1)).double() * 2.0**-53


def below(bits: Int[Tensor, "*any"], limit: Int[Tensor, "..."] | int) -> Int[Tensor, "*any"]:
    """Uniform int64 in [0, limit), for limits below 2^31; uses the top 32 bits."""
    return (((bits >> 32) & 0xFFFFFFFF) * limit) >> 32


def happens(bits: Int[Tensor, "*any"], probability: float) -> Bool[Tensor, "*any"]:
    """Booleans, each true with the given probability; any shape."""
    return bits < min(int(probability * 2**64) - 2**63, LAST)


def order_keys(bits_bn: Int[Tensor, "b n"], allowed_bn: Bool[Tensor, "b n"]) -> Int[Tensor, "b n"]:
    """Keys (b, n) that sort the allowed lanes in random order, and all others last as ``LAST``.

    The low bits of a key hold its lane, so keys never tie; ``lane_of`` reads them.
    """
    n = bits_bn.shape[1]
    lane_n = torch.arange(n, device=bits_bn.device)
    keys_bn = (bits_bn & -(1 << n.bit_length())).bitwise_or_(lane_n)
    return torch.where(allowed_bn, keys_bn, LAST)


def weigh_keys(
    bits_bn: Int[Tensor, "b n"], scarcity_bn: Float[Tensor, "b n"], allowed_bn: Bool[Tensor, "b n"]
) -> Int[Tensor, "b n"]:
    """Keys like those of ``order_keys``, with lanes first in proportion to 1 / scarcity (float64).

    The keys are exponential draws of those rates: the k smallest are k lanes drawn one after
    another without replacement (Efraimidis and Spirakis 2006). Positive numbers sort as their bits.
    """
    waits_bn = -torch.log1p(-unit64(bits_bn)) * scarcity_bn
    return order_keys(waits_bn.view(torch.int64), allowed_bn)


def lane_of(keys: Int[Tensor, "*any"], lanes: int) -> Int[Tensor, "*any"]:
    """The lane in the low bits of a key of ``order_keys``, given the number of lanes; any shape."""
    return keys & ((1 << lanes.bit_length()) - 1)


def smallest(values_bn: Int[Tensor, "b n"], count: int) -> Int[Tensor, "b {count}"]:
    """The ``count`` smallest integers of each row, ascending (b, many)."""
    if values_bn.device.type != "cpu" or torch.compiler.is_compiling():
        return values_bn.topk(count, dim=1, largest=False, sorted=True).values
    # Sorting dominates on a CPU, and numpy does it with vector instructions.
    values = values_bn.numpy()
    if count < values.shape[1]:
        values = np.partition(values, count - 1, axis=1)[:, :count]
    return torch.from_numpy(np.sort(values, axis=1))


ROUNDS = 5  # odd, so that unresolved draws count as excluded


def draws_needed(rate: float, mean: float, square: float, predictions: int) -> int:
    """Number of draws that fills all but about one row in 1000, even if every word is one token.

    ``mean`` and ``square`` are the first two moments of the words per draw. About ``rate`` of the
    draws hit masked tokens and add nothing.
    """
    free = max(0.2, 1 - rate)
    gain, spread = free * mean, math.sqrt(free * square - (free * mean) ** 2)
    # Solves draws * gain - 3 * spread * sqrt(draws) = predictions.
    root = (3 * spread + math.sqrt(9 * spread**2 + 4 * gain * predictions)) / (2 * gain)
    return math.ceil(root**2)


def first_come(bars_bde: Bool[Tensor, "b d e"]) -> Bool[Tensor, "b d"]:
    """Draws (b, d) that stand, where ``bars_bde`` says that draw e excludes the later draw d.

    Only entries about earlier draws count. A round re-evaluates every draw by the results of the
    round before, so chains of exclusions resolve from the front, one link per round. Long chains
    are rare, and cost one draw.
    """
    draws = bars_bde.shape[1]
    place_d = torch.arange(draws, device=bars_bde.device)
    bars = (bars_bde & (place_d < place_d[:, None])).float()
    stands_bd = bars.new_ones(len(bars), draws)
    for _ in range(ROUNDS):
        stands_bd = ((bars * stands_bd[:, None]).sum(2) == 0).float()
    return stands_bd > 0


def earliest_cover(
    first_bd: Int[Tensor, "b d"], end_bd: Int[Tensor, "b d"], seq: int
) -> Int[Tensor, "b {seq}"]:
    """The earliest draw whose interval covers each position (b, s) int64; ``draws`` if none does.

    An interval is covered by two blocks of a power of two, which may overlap. Blocks are marked
    whole, and marks are passed down to blocks half as long, to single positions. Empty if end <=
    first.
    """
    b, draws = first_bd.shape
    levels = seq.bit_length()
    length_bd = end_bd - first_bd
    level_bd = torch.zeros_like(length_bd)
    for level in range(1, levels):
        level_bd = level_bd + (length_bd >= 1 << level)
    base_bd = torch.where(length_bd > 0, level_bd * seq, levels * seq)
    second_bd = torch.where(length_bd > 0, end_bd - (1 << level_bd), 0)
    place_bd = torch.arange(draws, device=first_bd.device).expand(b, draws)
    marks = torch.full((b, (levels + 1) * seq), draws, device=first_bd.device)
    slots = torch.cat([base_bd + first_bd, base_bd + second_bd], dim=1)
    marks.scatter_reduce_(1, slots, torch.cat([place_bd, place_bd], dim=1), "amin")
    upper_bs = marks[:, (levels - 1) * seq : levels * seq]
    for level in reversed(range(levels - 1)):
        half = 1 << level
        own_bs = marks[:, level * seq : (level + 1) * seq]
        moved_bs = torch.nn.functional.pad(upper_bs[:, :-half], (half, 0), value=draws)
        upper_bs = own_bs.minimum(upper_bs).minimum(moved_bs)
    return upper_bs


def union(
    first_bd: Int[Tensor, "b d"], end_bd: Int[Tensor, "b d"], seq: int
) -> Bool[Tensor, "b {seq}"]:
    """Mask (b, s) of the union of all intervals, which must begin at distinct positions."""
    reach = torch.zeros(len(first_bd), seq + 1, dtype=torch.long, device=first_bd.device)
    reach.scatter_reduce_(1, torch.where(end_bd > first_bd, first_bd, seq), end_bd, "amax")
    lane_s = torch.arange(seq, device=first_bd.device)
    return reach[:, :seq].cummax(1).values > lane_s
