"""Batches before corruption: padded token ids, the address of every example; rows of DNA turned.

Axes: b rows, s tokens of a row, m examples of a row: one, or several where rows are packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.text.batches.order import draw_below, permute
from bertc.text.rows.index import TRANSLATION
from bertc.text.vocab.vocabulary import Vocabulary

WINDOW_EXAMPLES = 1 << 16
"""Packing window: examples are only packed with others of the same window."""
MEMBERS_FILE, ENDS_FILE = "members", "ends"
COMPLEMENTS = "TVGH  CD  M KN   YSA BW R "
"""The letters of the other strand for those from A to Z, ambiguous ones included (IUPAC 1985)."""
_OTHER = str.maketrans(ascii_letters, COMPLEMENTS.lower() + COMPLEMENTS)


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
    texts: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    batch: RawBatch,
    row_n: NDArray[np.int64],
    cls: int,
    sep: int,
) -> None:
    """Write [CLS] a [SEP], or [CLS] a [SEP] b [SEP], for each entry of the texts into its row.

    ``texts`` are pairs of token ids and index entries of them. Entries of one row follow each
    other. A text longer than all of its ids is repeated. A translation has its own special tokens,
    [CLS] a [SEP] [CLS] b [SEP] (XLM, concat_batches).
    """
    rows = np.concatenate([entries for _, entries in texts])
    sizes_n, first_n = lengths(rows), rows["a_length"] + 2
    before_n = np.cumsum(sizes_n) - sizes_n
    nth_n = np.arange(len(row_n))
    begins_row_n = np.diff(row_n, prepend=-1) != 0
    earliest_n = np.maximum.accumulate(nth_n * begins_row_n)  # of each entry, the first of its row
    starts_n = before_n - before_n[earliest_n]
    batch.starts[row_n, nth_n - earliest_n] = starts_n
    batch.pair_labels[row_n, nth_n - earliest_n] = rows["label"]
    batch.lengths[row_n] = starts_n + sizes_n  # of the last entry of a row
    token_ids, segment_ids = batch.token_ids.reshape(-1), batch.segment_ids.reshape(-1)
    begin_n = row_n * batch.token_ids.shape[1] + starts_n
    translation_n, second_n = rows["label"] == TRANSLATION, begin_n + first_n
    ids_n = [ids for ids, entries in texts for _ in range(len(entries))]
    _copy(ids_n, rows["a"], rows["a_length"], token_ids, begin_n + 1)
    if (rest_n := sizes_n - first_n).any():
        _copy(ids_n, rows["b"], rows["b_length"], token_ids, second_n + translation_n)
        segment_ids[token_ranges(second_n, rest_n)] = 1
    token_ids[begin_n] = token_ids[second_n[translation_n]] = cls
    token_ids[second_n - 1] = token_ids[begin_n + sizes_n - 1] = sep


def _copy(
    ids_n: list[NDArray[Any]],
    from_n: NDArray[np.int64],
    counts_n: NDArray[np.int32],
    token_ids: NDArray[np.int32],
    to_n: NDArray[np.int64],
) -> None:
    """Copy runs of ids, one after another: faster than by an index of all tokens."""
    runs = zip(ids_n, from_n.tolist(), counts_n.tolist(), to_n.tolist(), strict=True)
    for ids, begin, count, to in runs:
        if begin + count <= len(ids):
            token_ids[to : to + count] = ids[begin : begin + count]
        else:
            token_ids[to : to + count] = ids.take(range(begin, begin + count), mode="wrap")


def token_ranges(begins_n: NDArray[np.int64], counts_n: NDArray[np.integer]) -> NDArray[np.int64]:
    """Ranges of ``counts_n`` numbers from ``begins_n`` on, end to end."""
    shifts_n = begins_n - (np.cumsum(counts_n) - counts_n)
    return np.asarray(np.arange(counts_n.sum()) + np.repeat(shifts_n, counts_n))


def lengths(rows: NDArray[Any]) -> NDArray[np.int32]:
    """The number of tokens of each index entry, special ones included."""
    second = (rows["b_length"] > 0) * (rows["b_length"] + 1 + (rows["label"] == TRANSLATION))
    return np.asarray(rows["a_length"] + 2 + second, dtype=np.int32)


def empty_batch(batch: int, seq: int, texts: int, pad: int) -> RawBatch:
    """A batch of padding, to be filled."""
    return RawBatch(
        token_ids=np.full((batch, seq), pad, dtype=np.int32),
        segment_ids=np.zeros((batch, seq), dtype=np.uint8), lengths=np.zeros(batch, dtype=np.int32),
        example_ids=np.zeros(batch, dtype=np.int64), copies=np.zeros(batch, dtype=np.int64),
        starts=np.full((batch, texts), seq, dtype=np.int32),
        pair_labels=np.zeros((batch, texts), dtype=np.int64),
        languages=np.zeros((batch, 2), dtype=np.uint8),
        following=np.full(batch, -1, dtype=np.int32), backward=np.zeros(batch, dtype=np.uint8),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Packs:
    """Packed rows: row p holds the examples ``members[ends[p - 1]:ends[p]]`` of ``examples``."""

    examples: NDArray[Any]
    members: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def texts_per_row(self) -> int:
        """The most examples that a row holds."""
        return int(np.diff(self.ends, prepend=0).max(initial=1))

    def unpack(self, packs: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The examples of some packed rows, end to end, and the row of each."""
        firsts = np.where(packs > 0, self.ends[packs - 1], 0)
        sizes = self.ends[packs] - firsts
        examples = self.examples[self.members[token_ranges(firsts, sizes)]]
        return examples, np.repeat(np.arange(len(packs)), sizes)


def write_packs(
    folder: Path, rows: NDArray[Any], seq: int, texts: int, seed: int, copy: int
) -> dict[str, int]:
    """Pack shuffled examples into rows of ``seq`` tokens, at most ``texts`` in each."""
    count = read = 0
    with (folder / MEMBERS_FILE).open("wb") as members, (folder / ENDS_FILE).open("wb") as ends:
        for start in range(0, len(rows), WINDOW_EXAMPLES):
            positions = np.arange(start, min(start + WINDOW_EXAMPLES, len(rows)), dtype=np.int64)
            drawn = permute(positions, len(rows), seed, "packs", copy)
            packs = best_fit(lengths(rows[drawn]).tolist(), seq, texts)
            members.write(drawn[[i for pack in packs for i in pack]].tobytes())
            sizes = np.array([len(pack) for pack in packs], dtype=np.int64)
            ends.write((read + np.cumsum(sizes)).tobytes())
            count, read = count + len(packs), read + len(drawn)
    return {"packs": count, "examples": read}


def best_fit(sizes: list[int], room: int, most: int) -> list[list[int]]:
    """Best fit: each example joins the fullest row with room for it, or opens a new one."""
    packs: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(room)]  # by the room left
    rooms_left = 0  # bit r is set if some row has r left
    for example, size in enumerate(sizes):
        fitting = rooms_left >> size << size
        if fitting:
            room_left = (fitting & -fitting).bit_length() - 1
            pack = by_room[room_left].pop()
            if not by_room[room_left]:
                rooms_left ^= 1 << room_left
        else:
            room_left, pack = room, len(packs)
            packs.append([])
        packs[pack].append(example)
        room_left -= size
        if room_left and len(packs[pack]) < most:
            by_room[room_left].append(pack)
            rooms_left |= 1 << room_left
    return packs


def complementary(vocabulary: Vocabulary, counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """The token (v,) of the reverse complement of each that is in the text; others stay."""
    tokens = np.arange(vocabulary.size, dtype=np.int32)
    for number in {*np.flatnonzero(counts).tolist()} - {vocabulary.unk}:
        token = vocabulary.token(number)
        other = vocabulary.tokenizer.token_to_id(token.translate(_OTHER)[::-1])
        if other is None:
            message = f"reverse_complement: the vocabulary has none of the token {token!r}"
            raise DataError(message, "text of DNA, in letters or all their k-mers; or augment=none")
        tokens[number] = other
    return tokens


def turn_rows(batch: RawBatch, chance: float, tokens: NDArray[np.int32], seed: int) -> None:
    """Turn the texts of each row with a chance, drawn by its address and pass."""
    most = np.full(len(batch.lengths), 1 << 32)
    drawn = draw_below(most, seed, "turned", batch.example_ids, batch.copies)
    for row in np.flatnonzero(drawn < chance * most):
        starts = batch.starts[row][batch.starts[row] < batch.lengths[row]]
        for begin, end in pairwise([*starts, batch.lengths[row]]):
            text = batch.token_ids[row, begin + 1 : end - 1]  # between [CLS] and [SEP]
            text[:] = tokens[text[::-1]]
