"""What training reads: packed token ids and the address of every example, before corruption.

Axes: b examples, s tokens of a row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RawBatch:
    """Rows as they stand in the text. Padding stands only at the end of a row.

    ``example_ids`` are stable addresses and ``copies`` tells which pass over the data a row
    belongs to (under static masking, which of the stored maskings): with the seed, the two key
    every random choice about a row. ``pair_labels``: 0 true order or next text, 1 not.
    """

    token_ids: NDArray[np.int32]  # (b, s) with special tokens
    segment_ids: NDArray[np.uint8]  # (b, s) 1 for the second text and its separator
    lengths: NDArray[np.int32]  # (b,) tokens before the padding
    example_ids: NDArray[np.int64]  # (b,)
    copies: NDArray[np.int64]  # (b,)
    pair_labels: NDArray[np.int64]  # (b,)
