"""Batches of rows: the rows of a batch are a function of the seed and the step alone."""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import BertcError
from bertc.ir.data import WINDOW
from bertc.text.batches import order
from bertc.text.batches.batch import Packs, RawBatch, empty_batch, lay_out_rows, turn_rows
from bertc.text.rows.tokens import Ids
from bertc.text.vocab.vocabulary import Vocabulary

SOURCE_BITS, COPY_BITS, ROW_BITS = 8, 14, 40
"""Bits of an example's address: source of the stage, stored copy, row of the copy."""
GRAIN = 8
"""The number that held-out rows are a multiple of: batches of most sizes divide them."""
READERS = 4
"""Threads that open shards ahead; a store answers several better than one."""
IndexedIds = tuple[Ids, NDArray[Any] | Packs]
"""The token ids of a shard, and the index of its rows."""


@dataclass(frozen=True, eq=False)
class ShardedRows:
    """Rows of a source in shards, ``sizes`` in each, numbered through.

    ``opened`` gives the ids and the index of one; a slow one is opened before it is needed. A row
    holds at most ``texts`` examples. Rows of ``window`` shards are mixed with each other.
    """

    sizes: NDArray[np.int64]
    opened: Callable[[int], IndexedIds]
    texts: int = 1
    slow: bool = False
    window: int = WINDOW

    def __len__(self) -> int:
        return int(self.ends[-1])

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The number of rows up to the end of each shard."""
        return np.cumsum(self.sizes)


class ShardEntries(NamedTuple):
    """Entries of the index of a shard, and the row of the batch that each is in."""

    source: int
    ids: Ids
    examples: NDArray[Any]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SourceRows:
    """A source of a stage: the rows of each stored copy, and both languages."""

    copies: tuple[ShardedRows, ...]
    languages: tuple[int, int] = (0, 0)


class Places(NamedTuple):
    """Source, epoch, copy and row of the examples at consecutive positions."""

    sources: NDArray[np.int64]
    epochs: NDArray[np.int64]
    copies: NDArray[np.int64]  # stored copy, epoch modulo their number
    rows: NDArray[np.int64]


@dataclass(eq=False)
class StageData:
    """Training and held-out batches of a stage.

    ``examples`` (rows) and ``tokens`` count one pass over the training part; ``lost`` tokens of it
    were cut off to fit. A row holds up to ``texts`` examples. Sources are drawn in proportion to
    weight x rows: a pass reads those of the largest weight once, others less often. With
    ``mixing=batches`` a whole batch is drawn from the sources of one language, or one direction.
    ``static_copies`` > 0 numbers the maskings of static masking instead of the passes. ``turns``:
    the chance of training rows to be turned, and the complements of tokens.
    """

    vocabulary: Vocabulary
    seed: int
    batch: int
    seq: int
    train_sources: tuple[SourceRows, ...]
    heldout_sources: tuple[SourceRows, ...]
    weights: tuple[float, ...]
    tokens: int
    lost: int = 0
    texts: int = 1
    static_copies: int = 0
    mixing: Literal["rows", "batches"] = "rows"
    turns: tuple[float, NDArray[np.int32]] | None = None
    grain: int = GRAIN  # numbers of held-out rows are multiples of it
    _block: tuple[int, Places] | None = field(default=None, repr=False)
    _ahead: dict[int, list[set[tuple[int, int]]]] = field(default_factory=dict, repr=False)

    @property
    def examples(self) -> int:
        """The number of rows of one pass."""
        return sum(self._quotas())

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of ``steps`` steps from ``step`` on, or ``rows`` of each."""
        positions = np.arange(step * self.batch, (step + steps) * self.batch, dtype=np.int64)
        chosen = positions.reshape(steps, self.batch)[:, rows or slice(None)].reshape(-1)
        batch = self._gather(self.train_sources, self._places(chosen))
        if self.turns:
            turn_rows(batch, *self.turns, self.seed)
        return batch

    def heldout(self, sizes: range, examples: int) -> Iterator[RawBatch]:
        """Held-out batches of one size, ``examples`` rows in all, in a fixed shuffled order.

        Each batch is of one language or direction; all have their share of the batches, and at
        least one. The size is the largest of ``sizes`` that divides the rows, so that runs with
        other batches, or on other devices, are evaluated on the same rows. If none does it is the
        largest; there, and in a language of few rows, those that do not fill a last batch are left
        out, or repeated to fill one.
        """
        rows, counts = self._heldout_batches(sizes, examples)
        for number, (group, count) in enumerate(zip(self._languages(), counts, strict=True)):
            group_sizes = [len(self.heldout_sources[source].copies[0]) for source in group]
            total = sum(group_sizes)
            for start in range(0, count * rows, rows):
                places = np.arange(start, start + rows, dtype=np.int64) % total
                address = ("heldout", number) if number else ("heldout",)
                shuffled = order.permute(places, total, self.seed, *address)
                sources, lines = order.ranges_of(shuffled, np.array(group_sizes))
                zeros = np.zeros(rows, dtype=np.int64)
                chosen = np.array(group)[sources]
                yield self._gather(self.heldout_sources, Places(chosen, zeros, zeros, lines))

    def heldout_rows(self, sizes: range, examples: int) -> int:
        """The number of rows that ``heldout`` yields."""
        rows, counts = self._heldout_batches(sizes, examples)
        return sum(counts) * rows

    def _heldout_batches(self, sizes: range, examples: int) -> tuple[int, list[int]]:
        """Rows of a batch, and the number of batches of each language."""
        of_sources = [len(source.copies[0]) for source in self.heldout_sources]
        totals = [sum(of_sources[source] for source in group) for group in self._languages()]
        grain = self.grain
        shares = (math.ceil(examples * n / sum(of_sources) / grain) * grain for n in totals)
        counts = [min(w, n - n % grain or n) for w, n in zip(shares, totals, strict=True)]
        grains = [count for count in counts if count >= grain] or counts
        fitting = (size for size in reversed(sizes) if not any(count % size for count in grains))
        rows = next(fitting, sizes[-1])
        return rows, [max(count // rows, 1) for count in counts]

    def _languages(self) -> list[list[int]]:
        sources_by_language: dict[tuple[int, int], list[int]] = {}
        for number, source in enumerate(self.train_sources):
            sources_by_language.setdefault(source.languages, []).append(number)
        return list(sources_by_language.values())

    def _quotas(self) -> list[int]:
        largest = max(self.weights)
        pairs = zip(self.train_sources, self.weights, strict=True)
        return [max(1, round(len(source.copies[0]) * w / largest)) for source, w in pairs]

    def _places(self, positions: NDArray[np.int64]) -> Places:
        """The places of positions in the endless sequence of examples; caches the current block."""
        # Of little text a block of thousands would be hundreds of passes, each with its own order.
        size = min(order.BLOCK_POSITIONS, max(self.examples, self.batch))
        first, last = int(positions[0]) // size, int(positions[-1]) // size
        if first != last or int(positions.min()) < first * size:
            return self._look_up(positions)
        if self._block is None or self._block[0] != first:
            self._block = (first, self._look_up(np.arange(first * size, (first + 1) * size)))
        return Places(*(column[positions - first * size] for column in self._block[1]))

    def _look_up(self, positions: NDArray[np.int64]) -> Places:
        """Places of the examples at positions of the stage's order, counted from its first step.

        1. With ``mixing=batches``, draw the language of each step's batch.
        2. Draw the source of each position, by the quotas of its group.
        3. The nth draw of a source is the nth row of its shuffled passes (``_draw``).
        """
        quotas, groups = self._quotas(), [list(range(len(self.train_sources)))]
        if self.mixing == "batches":
            groups = self._languages()
        batches = [max(1, round(sum(quotas[n] for n in group) / self.batch)) for group in groups]
        copies = (copy for source in self.train_sources for copy in source.copies)
        if any(len(copy.sizes) > copy.window for copy in copies):
            # Mixed over a whole pass, every batch would be of all windows.
            quotas = order.reduce_quotas(quotas, order.MIXED_POSITIONS)
            batches = order.reduce_quotas(batches, order.MIXED_POSITIONS // self.batch)
        steps, within = np.divmod(positions, self.batch)
        chosen = np.zeros_like(positions)
        if len(groups) > 1:
            chosen, nth = order.mixed(steps, batches, self.seed, "batches")
            positions = nth * self.batch + within
        sources, draws = np.empty_like(positions), np.empty_like(positions)
        for number, group in enumerate(groups):
            in_group, address = chosen == number, ("mix", number) if number else ("mix",)
            nth_sources, draws[in_group] = order.mixed(
                positions[in_group], [quotas[source] for source in group], self.seed, *address
            )
            sources[in_group] = np.array(group)[nth_sources]
        result = Places(sources, *(np.zeros_like(positions) for _ in range(3)))
        for number, source in enumerate(self.train_sources):
            drawn = sources == number
            columns = _draw(source.copies, draws[drawn], self.seed, number)
            result.epochs[drawn], result.copies[drawn], result.rows[drawn] = columns
        return result

    def _gather(self, drawn: tuple[SourceRows, ...], places: Places) -> RawBatch:
        pad, cls, sep = self.vocabulary.pad, self.vocabulary.cls, self.vocabulary.sep
        batch = empty_batch(len(places.rows), self.seq, self.texts, pad)
        read = [*self._entries(drawn, places)]
        rows_n = np.concatenate([entries.rows for entries in read])
        lay_out_rows([(e.ids, e.examples) for e in read], batch, rows_n, cls, sep)
        for entries in read:
            batch.languages[entries.rows] = drawn[entries.source].languages
        groups = places.sources << COPY_BITS | places.copies
        batch.example_ids[:] = groups << ROW_BITS | places.rows
        batch.copies[:] = places.epochs
        if self.static_copies:
            batch.copies[:] %= self.static_copies
        return batch

    def _entries(self, drawn: tuple[SourceRows, ...], places: Places) -> Iterator[ShardEntries]:
        groups = places.sources << COPY_BITS | places.copies
        for group in set(groups.tolist()):
            source, in_group = group >> COPY_BITS, np.flatnonzero(groups == group)
            copy = drawn[source].copies[group & (1 << COPY_BITS) - 1]
            shards, nth = order.ranges_to(copy.ends, places.rows[in_group])
            for shard in set(shards.tolist()):
                in_shard = shards == shard
                rows, entries = in_group[in_shard], nth[in_shard]
                if copy.slow and drawn is self.train_sources:
                    self._read_ahead(source, copy, int(places.epochs[rows[0]]), shard)
                ids, index = copy.opened(shard)
                if isinstance(index, Packs):
                    examples, which = index.unpack(entries)
                else:
                    examples, which = index[entries], np.arange(len(entries))
                rows = rows[which]
                if (examples["b"] < 0).any():
                    address = source, shard, examples["a"], places.epochs[rows]
                    most = 1 - np.minimum(examples["b"], 0)
                    examples["a"] += order.draw_below(most, self.seed, "cut", *address)
                yield ShardEntries(source, ids, examples, rows)

    def _read_ahead(self, source: int, copy: ShardedRows, epoch: int, shard: int) -> None:
        """Open the other shards of a shard's window, and those of the next, in the background."""
        windows = self._ahead.get(source, [])
        if any((epoch, shard) in window for window in windows):
            return
        shuffled = order.shards_in_order(len(copy.sizes), self.seed, "order", source, epoch)
        first = int(np.flatnonzero(shuffled == shard)[0]) // copy.window * copy.window
        shards = shuffled[first : first + 2 * copy.window].tolist()
        # A batch reads of two windows at most.
        self._ahead[source] = [*windows[-1:], {(epoch, n) for n in shards[: copy.window]}]

        def open_share(nth: int) -> None:
            # What fails fails again, and is reported, where it is needed.
            with contextlib.suppress(BertcError, OSError):
                for shard in shards[nth::READERS]:
                    copy.opened(shard)

        for nth in range(READERS):
            threading.Thread(target=open_share, args=(nth,), daemon=True).start()


def _draw(
    of_source: tuple[ShardedRows, ...], draws: NDArray[np.int64], seed: int, source: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(epoch, copy, row) of each draw from a source; its copies take turns."""
    sizes = np.array([len(copy) for copy in of_source])
    rounds, within = np.divmod(draws, sizes.sum())
    copies, rows = order.ranges_of(within, sizes)
    epochs = rounds * len(sizes) + copies
    for epoch in np.unique(epochs).tolist():
        in_epoch, copy = epochs == epoch, of_source[epoch % len(sizes)]
        address = ("order", source, epoch)
        rows[in_epoch] = order.windowed(rows[in_epoch], copy.sizes, copy.window, seed, *address)
    return epochs, copies, rows
