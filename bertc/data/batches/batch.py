"""Batches before corruption: padded token ids, and the address of every example.

Axes: b rows, s tokens of a row, m examples of a row: one, or several where rows are packed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.rows.index import TRANSLATION


@dataclass(frozen=True)
class RawBatch:
    """A batch of rows before corruption, padded at the end of each row.

    ``example_ids`` are stable addresses and ``copies`` the pass over the data of each row (the
    stored masking, under static masking): with the seed they key every random choice about a row.
    ``starts`` are the first tokens of a row's examples, s where unused. ``pair_labels``: 0 true
    order or next text, 1 not, 2 a translation; both ``languages`` of a row differ only then.
    ``following`` is the token after a row of running text, else -1; such a row has no padding, and
    its first ``lengths`` tokens are predicted. ``backward`` rows read their text in reverse.
    """

    token_ids: NDArray[np.int32]  # (b, s) with special tokens
    segment_ids: NDArray[np.uint8]  # (b, s) 1: second text, its separator; 2: a [CLS] after both
    lengths: NDArray[np.int32]  # (b,) tokens before the padding
    example_ids: NDArray[np.int64]  # (b,)
    copies: NDArray[np.int64]  # (b,)
    starts: NDArray[np.int32]  # (b, m)
    pair_labels: NDArray[np.int64]  # (b, m)
    languages: NDArray[np.uint8]  # (b, 2) of the first text and of the second
    following: NDArray[np.int32]  # (b,)
    backward: NDArray[np.uint8]  # (b,) 1 or 0


def lay_out_rows(
    ids: NDArray[Any],
    rows: NDArray[Any],
    batch: RawBatch,
    at: NDArray[np.int64],
    cls: int,
    sep: int,
) -> None:
    """Write [CLS] a [SEP], or [CLS] a [SEP] b [SEP], for entry i of ``rows`` into row ``at[i]``.

    ``at`` ascends. A text longer than all of ``ids`` is repeated. A translation has its own special
    tokens, [CLS] a [SEP] [CLS] b [SEP] (XLM, concat_batches).
    """
    sizes_n, first_n = lengths(rows), rows["a_length"] + 2
    before_n = np.cumsum(sizes_n) - sizes_n
    earliest_n = np.searchsorted(at, at)  # of each entry, the first entry in its row
    starts_n = before_n - before_n[earliest_n]
    places_n = np.arange(len(at)) - earliest_n
    batch.starts[at, places_n] = starts_n
    batch.pair_labels[at, places_n] = rows["label"]
    np.add.at(batch.lengths, at, sizes_n)
    token_ids, segment_ids = batch.token_ids.reshape(-1), batch.segment_ids.reshape(-1)
    begin_n = at * batch.token_ids.shape[1] + starts_n
    translation_n, second_n = rows["label"] == TRANSLATION, begin_n + first_n
    to_t = token_ranges(begin_n, first_n)
    token_ids[to_t] = ids.take(token_ranges(rows["a"] - 1, first_n), mode="wrap")
    to_t = token_ranges(second_n, sizes_n - first_n)
    from_t = token_ranges(rows["b"] - translation_n, sizes_n - first_n)
    token_ids[to_t] = ids.take(from_t, mode="wrap")
    segment_ids[to_t] = 1
    token_ids[begin_n] = token_ids[second_n[translation_n]] = cls
    token_ids[second_n - 1] = token_ids[begin_n + sizes_n - 1] = sep


def token_ranges(begins_n: NDArray[np.int64], counts_n: NDArray[np.integer]) -> NDArray[np.int64]:
    """Ranges of ``counts_n`` numbers from ``begins_n`` on, end to end."""
    shifts_n = begins_n - (np.cumsum(counts_n) - counts_n)
    ranges_t: NDArray[np.int64] = np.arange(counts_n.sum()) + np.repeat(shifts_n, counts_n)
    return ranges_t


def lengths(rows: NDArray[Any]) -> NDArray[np.int32]:
    """The number of tokens of each index entry, special ones included."""
    second = (rows["b_length"] > 0) * (rows["b_length"] + 1 + (rows["label"] == TRANSLATION))
    return np.asarray(rows["a_length"] + 2 + second, dtype=np.int32)


def empty_batch(batch: int, seq: int, texts: int, pad: int) -> RawBatch:
    """A batch of padding, to be filled."""
    return RawBatch(
        token_ids=np.full((batch, seq), pad, dtype=np.int32),
        segment_ids=np.zeros((batch, seq), dtype=np.uint8),
        lengths=np.zeros(batch, dtype=np.int32),
        example_ids=np.zeros(batch, dtype=np.int64),
        copies=np.zeros(batch, dtype=np.int64),
        starts=np.full((batch, texts), seq, dtype=np.int32),
        pair_labels=np.zeros((batch, texts), dtype=np.int64),
        languages=np.zeros((batch, 2), dtype=np.uint8),
        following=np.full(batch, -1, dtype=np.int32),
        backward=np.zeros(batch, dtype=np.uint8),
    )
