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
    segment_ids: NDArray[
        np.uint8
    ]  # (b, s) 1 for the second text and its separator, 2 for a [CLS] after both
    lengths: NDArray[np.int32]  # (b,) tokens before the padding
    example_ids: NDArray[np.int64]  # (b,)
    copies: NDArray[np.int64]  # (b,)
    starts: NDArray[np.int32]  # (b, m)
    pair_labels: NDArray[np.int64]  # (b, m)
    languages: NDArray[np.uint8]  # (b, 2) of the first text and of the second
    following: NDArray[np.int32]  # (b,)
    backward: NDArray[np.uint8]  # (b,) 1 or 0


def assemble_rows(
    ids: NDArray[Any], rows: NDArray[Any], batch: RawBatch, at: list[int], cls: int, sep: int
) -> None:
    """Write [CLS] a [SEP], or [CLS] a [SEP] b [SEP], into the rows ``at`` of a padded batch.

    ``rows`` are entries of ``index.ROW``; a text longer than all of ``ids`` is repeated.
    A translation has its own special tokens, [CLS] a [SEP] [CLS] b [SEP] (XLM, concat_batches).
    """
    batch.starts[at, 0] = 0
    batch.token_ids[at, 0] = cls
    batch.pair_labels[at, 0] = rows["label"]
    nth_b, lane_s = np.arange(len(at)), np.arange(batch.token_ids.shape[1], dtype=np.int32)
    translation_b = rows["label"] == TRANSLATION
    middle_b = rows["a_length"] + 2  # where the second text's tokens would begin
    second_b = middle_b + translation_b  # and the text itself, after its own [CLS]
    end_b = lengths(rows)
    in_second_bs, real_bs = lane_s >= middle_b[:, None], lane_s < end_b[:, None]
    shift_bs = np.where(in_second_bs, (rows["b"] - second_b)[:, None], rows["a"][:, None] - 1)
    tokens_bs = ids.take(shift_bs + lane_s, mode="wrap")
    written_bs = np.where(real_bs, tokens_bs, batch.token_ids[at])
    written_bs[:, 0] = batch.token_ids[at, 0]
    written_bs[nth_b[translation_b], middle_b[translation_b]] = cls
    written_bs[nth_b, middle_b - 1] = written_bs[nth_b, end_b - 1] = sep
    batch.token_ids[at] = written_bs
    batch.segment_ids[at] = in_second_bs & real_bs
    batch.lengths[at] = end_b


def assemble_packed(
    ids: NDArray[Any],
    rows: NDArray[Any],
    batch: RawBatch,
    at: NDArray[np.int64],
    cls: int,
    sep: int,
) -> None:
    """Write several examples into each row: entry i of ``rows`` into row ``at[i]``.

    ``at`` ascends; entries of a row follow each other.
    """
    sizes = lengths(rows)
    ends = np.cumsum(sizes)
    first = np.searchsorted(at, at)  # of each entry, the first entry in its row
    starts = ends - sizes - (ends - sizes)[first]
    places = np.arange(len(at)) - first
    batch.starts[at, places] = starts
    batch.pair_labels[at, places] = rows["label"]
    batch.token_ids[at, starts] = cls
    _write_packed(ids, rows, batch, at.tolist(), starts.tolist(), cls, sep)
    np.add.at(batch.lengths, at, sizes)


def lengths(rows: NDArray[Any]) -> NDArray[np.int32]:
    """The number of tokens of each index entry, special ones included."""
    second = (rows["b_length"] > 0) * (rows["b_length"] + 1 + (rows["label"] == TRANSLATION))
    return np.asarray(rows["a_length"] + 2 + second, dtype=np.int32)


def _write_packed(
    ids: NDArray[Any],
    rows: NDArray[Any],
    batch: RawBatch,
    at: list[int],
    starts: list[int],
    cls: int,
    sep: int,
) -> None:
    token_ids, segment_ids = batch.token_ids, batch.segment_ids
    entries = zip(at, starts, rows.tolist(), strict=True)
    for i, start, (a, b, a_length, b_length, label) in entries:
        row, end = token_ids[i], start + a_length + 1
        row[start + 1 : end] = ids[a : a + a_length]
        row[end] = sep
        if b_length:
            second = end + 1
            if label == TRANSLATION:
                row[second] = cls
                second += 1
            last = second + b_length
            row[second:last] = ids[b : b + b_length]
            row[last] = sep
            segment_ids[i, end + 1 : last + 1] = 1


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
