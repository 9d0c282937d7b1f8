"""Sizes of the blocks in which kernels work: of windows, scores and losses."""

SOFT_TARGETS, TOKEN_PAIRS = (2**23, 2**26), (2**20, 2**26)
"""Scores of a block, on a CPU and elsewhere: of tokens in the vocabulary, of tokens in a row.

The first are as few as products are still fast with, the second as many as a CPU's caches hold."""


def block_size(reach: int) -> int:
    """Queries of a window that are scored together, against keys on both sides of them all."""
    return max(reach, SMALLEST_BLOCK)


def in_blocks(keys: int, reach: int) -> bool:
    """True if blocks halve the keys that a query is scored against; else their copies cost more."""
    return keys > 2 * (block_size(reach) + 2 * reach)


SMALLEST_BLOCK = 64
"""Queries of a block if the window is narrower: products of fewer rows are slow."""
SHORT_KEYS = 256
"""Keys up to which a CPU's attention in bf16 is quicker by a stored score matrix.

Backward of torch's fused kernel takes 1.3 to 3 times as long there on AMX, without AMX 1 to 2
times."""
