"""The order of examples: a keyed permutation with random access, so any step costs the same.

A Feistel network permutes the numbers below a power of two; numbers that leave the range walk on
through it until they come back in (Black and Rogaway 2002, cycle walking).
"""

import numpy as np
from numpy.typing import NDArray

from bertc.ir.address import key

FEISTEL_ROUNDS = 6
BLOCK_POSITIONS = 8192
"""Positions looked up at once: numpy's overhead is that of a thousand numbers."""

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)  # the multipliers of splitmix64's finaliser
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> _SHIFT_1)) * _MIX_1
    x = (x ^ (x >> _SHIFT_2)) * _MIX_2
    return x ^ (x >> _SHIFT_3)


def permute(
    positions: NDArray[np.int64], size: int, seed: int, *address: str | int
) -> NDArray[np.int64]:
    """Images of ``positions``, all in [0, size), under the permutation keyed by ``address``."""
    if size <= 1:
        return np.zeros_like(positions)
    bits = (size - 1).bit_length()
    low, high = bits // 2, bits - bits // 2
    keys = [np.uint64(key(seed, *address, turn)) for turn in range(FEISTEL_ROUNDS)]
    result = positions.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside):
        result[outside] = _feistel(result[outside], low, high, keys)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _feistel(
    x: NDArray[np.uint64], low: int, high: int, keys: list[np.uint64]
) -> NDArray[np.uint64]:
    for round_key in keys:
        lower_bits, upper_mask = np.uint64(low), np.uint64((1 << high) - 1)
        upper, lower = x >> lower_bits, x & np.uint64((1 << low) - 1)
        upper = (upper ^ _mix(lower + round_key)) & upper_mask
        x = (lower << np.uint64(high)) | upper
        low, high = high, low
    return x
