"""Sequential draws that exclude each other, resolved in parallel.

Axes: b examples, d draws (e: earlier draws), s positions of a row.
"""

import math

import torch
from jaxtyping import Bool, Int

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


def first_come(bars_bde: Bool[torch.Tensor, "b d e"]) -> Bool[torch.Tensor, "b d"]:
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
    first_bd: Int[torch.Tensor, "b d"], end_bd: Int[torch.Tensor, "b d"], seq: int
) -> Int[torch.Tensor, "b {seq}"]:
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
    first_bd: Int[torch.Tensor, "b d"], end_bd: Int[torch.Tensor, "b d"], seq: int
) -> Bool[torch.Tensor, "b {seq}"]:
    """Mask (b, s) of the union of all intervals, which must begin at distinct positions.

    Empty if end <= first.
    """
    reach = torch.zeros(len(first_bd), seq + 1, dtype=torch.long, device=first_bd.device)
    reach.scatter_reduce_(1, torch.where(end_bd > first_bd, first_bd, seq), end_bd, "amax")
    lane_s = torch.arange(seq, device=first_bd.device)
    return reach[:, :seq].cummax(1).values > lane_s
