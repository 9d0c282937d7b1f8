"""The order of examples, a keyed permutation with random access; shares of the texts of a stage."""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bertc.ir.address import key
from bertc.ir.data import Parallel
from bertc.ir.program import Stage, TaskStage
from bertc.ir.terms.node import translates
from bertc.text.sources.source import CorpusText

Ints = NDArray[np.int64]
FEISTEL_ROUNDS = 6
BLOCK_POSITIONS = 8192
"""Positions looked up at once: numpy's overhead is that of a thousand numbers."""
MIXED_POSITIONS = 1 << 16
"""Positions in which sources of many shards are mixed, so that a batch is of few windows."""
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)  # the multipliers of splitmix64's finaliser
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> _SHIFT_1)) * _MIX_1
    x = (x ^ (x >> _SHIFT_2)) * _MIX_2
    return x ^ (x >> _SHIFT_3)


def permute(positions: Ints, size: int, seed: int, *address: str | int) -> Ints:
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


def _feistel(x: NDArray[np.uint64], lo: int, hi: int, keys: list[np.uint64]) -> NDArray[np.uint64]:
    for round_key in keys:
        lower_bits, upper_mask = np.uint64(lo), np.uint64((1 << hi) - 1)
        upper, lower = x >> lower_bits, x & np.uint64((1 << lo) - 1)
        upper = (upper ^ _mix(lower + round_key)) & upper_mask
        x = (lower << np.uint64(hi)) | upper
        lo, hi = hi, lo
    return x


def draw_below(limits: Ints, seed: int, purpose: str, *addresses: Ints | int) -> Ints:
    """A number below each of ``limits``, a function of its own address alone."""
    bits = np.full(len(limits), key(seed, purpose), dtype=np.uint64)
    for part in addresses:
        bits = _mix(bits + np.asarray(part, dtype=np.uint64))
    return np.asarray(bits % limits.astype(np.uint64), dtype=np.int64)


def windowed(positions: Ints, sizes: Ints, window: int, seed: int, *address: str | int) -> Ints:
    """Images of ``positions`` among the rows of shards, ``sizes`` in each, numbered through."""
    if len(sizes) <= window:
        return permute(positions, int(sizes.sum()), seed, *address)
    order = shards_in_order(len(sizes), seed, *address)
    in_order = sizes[order]
    in_windows = np.add.reduceat(in_order, np.arange(0, len(sizes), window))
    windows, within = ranges_of(positions, in_windows)
    result = np.empty_like(positions)
    for number in np.unique(windows).tolist():
        chosen, shards = windows == number, slice(number * window, (number + 1) * window)
        total = int(in_order[shards].sum())
        rows = permute(within[chosen], total, seed, *address, "window", number)
        nth, row = ranges_of(rows, in_order[shards])
        result[chosen] = (np.cumsum(sizes) - sizes)[order[shards][nth]] + row
    return result


@lru_cache(8)
def shards_in_order(count: int, seed: int, *address: str | int) -> Ints:
    """The shards of a pass in the order in which windows take them."""
    return permute(np.arange(count), count, seed, *address, "shards")


def reduce_quotas(quotas: list[int], total: int) -> list[int]:
    """Quotas in about the same proportions, about ``total`` in all if they are more."""
    pass_total = sum(quotas)
    if pass_total <= total:
        return quotas
    return [max(1, round(quota * total / pass_total)) for quota in quotas]


def mixed(positions: Ints, quotas: list[int], seed: int, *address: str | int) -> tuple[Ints, Ints]:
    """Interleave sequences, in each pass by their quotas: sequence and index of each position."""
    total = sum(quotas)
    passes, within = np.divmod(positions, total)
    if len(quotas) > 1:
        for turn in np.unique(passes):
            in_pass = passes == turn
            within[in_pass] = permute(within[in_pass], total, seed, *address, int(turn))
    chosen, draws = ranges_of(within, np.array(quotas))
    return chosen, draws + passes * np.array(quotas)[chosen]


def ranges_of(positions: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """The range of each position among ranges laid end to end, and its offset in it."""
    return ranges_to(np.cumsum(sizes), positions)


def ranges_to(ends: Ints, positions: Ints) -> tuple[Ints, Ints]:
    """The same for ranges that end at ``ends``."""
    ranges = np.searchsorted(ends, positions, side="right")
    return ranges, positions - np.where(ranges > 0, ends[ranges - 1], 0)


def texts_of(stage: Stage) -> list[tuple[float, CorpusText]]:
    """The texts of a stage, with their weights as written.

    Parallel text is read in pairs if an objective needs them. Its sides are read on their own, as
    monolingual text, if none does, or if other objectives have no other monolingual text.
    """
    if isinstance(stage, TaskStage):
        return []
    translating = sum(translates(term.objective) for term in stage.objective)
    parallel = [isinstance(share.corpus, Parallel) for share in stage.data]
    weighted: list[tuple[float, CorpusText]] = []
    for share, paired in zip(stage.data, parallel, strict=True):
        if not paired or translating:
            weighted.append((share.weight, CorpusText(share.corpus)))
        if paired and (not translating or (len(stage.objective) > translating and all(parallel))):
            weighted += [(share.weight, CorpusText(share.corpus, side)) for side in (0, 1)]
    return weighted


def orders_of(stage: Stage) -> list[tuple[float, CorpusText, bool]]:
    """The texts of a stage with weight and ``swapped``: the second text of a row comes first."""
    ordered = []
    for weight, text in texts_of(stage):
        orders = (False, True) if text.paired and stage.mixing.both_orders else (False,)
        ordered += [(weight / len(orders), text, swapped) for swapped in orders]
    return ordered


def set_proportions(
    weights: Sequence[float], rows: Sequence[int], paired: Sequence[bool], part: float
) -> tuple[float, ...]:
    """Weights for a fraction ``part`` of translations; unchanged for 0, or text of one sort."""
    drawn = {False: 0.0, True: 0.0}
    for weight, count, both in zip(weights, rows, paired, strict=True):
        drawn[both] += weight * count
    if not part or not all(drawn.values()):
        return tuple(weights)
    factor = part / (1 - part) * drawn[False] / drawn[True]
    return tuple(w * (factor if both else 1) for w, both in zip(weights, paired, strict=True))


def draw_weights(
    texts: Sequence[tuple[float, CorpusText]], tokens: Sequence[int], exponent: float
) -> tuple[float, ...]:
    """Weights w: drawing in proportion to w x size draws language l with p_l^exponent.

    p_l is the share of l in the tokens, times the written weights. Pairs are smoothed among
    themselves, as in XLM (utils.py, set_sampling_probs): their total share stays as written.
    """
    weighted_sizes = [weight * max(1, n) for (weight, _), n in zip(texts, tokens, strict=True)]
    weights = [weight for weight, _ in texts]
    for paired in (False, True):
        places = [i for i, (_, text) in enumerate(texts) if text.paired == paired]
        by_language: dict[tuple[str, str], float] = defaultdict(float)
        for i in places:
            by_language[texts[i][1].languages] += weighted_sizes[i]
        total = sum(weighted_sizes[i] for i in places)
        factors = {k: (size / total) ** (exponent - 1) for k, size in by_language.items()}
        smoothed_total = sum(factors[k] * size for k, size in by_language.items())
        for i in places:
            weights[i] *= factors[texts[i][1].languages] * total / smoothed_total
    return tuple(weights)
