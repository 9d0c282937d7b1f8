"""The batches of a stage: which row stands where is a function of the seed and the step alone."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertc.data.batches.batch import RawBatch, assemble, assemble_packed, empty_batch
from bertc.data.batches.order import BLOCK, permute
from bertc.data.batches.packs import Packs
from bertc.data.vocab.vocabulary import Vocabulary

SOURCE_BITS, COPY_BITS, ROW_BITS = 8, 14, 40
"""How an example's address is packed: source of the stage, stored copy, row of the copy."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One source of a stage: its token ids and one index of rows for each stored copy.

    ``languages`` are the numbers of those of the first and the second text of its rows.
    """

    ids: NDArray[Any]
    copies: tuple[NDArray[Any] | Packs, ...]
    languages: tuple[int, int] = (0, 0)

    @property
    def sizes(self) -> list[int]:
        """Rows of each copy."""
        return [len(rows) for rows in self.copies]


@dataclass(frozen=True, eq=False)
class Places:
    """Where the examples of some consecutive positions stand."""

    sources: NDArray[np.int64]
    epochs: NDArray[np.int64]
    copies: NDArray[np.int64]  # stored copy, epoch modulo their number
    rows: NDArray[np.int64]


@dataclass(eq=False)
class StageData:
    """Training and held-out batches of one stage.

    ``examples`` (rows) and ``tokens`` count one pass over the training part; ``lost`` tokens of it
    were cut off to fit. A row holds up to ``texts`` examples. Sources are drawn in proportion to
    weight x rows: a pass reads those of the largest weight once, others less often. With
    ``mixing=batches`` a whole batch is drawn from the sources of one language, or one direction.
    ``static_copies`` > 0 numbers the maskings of static masking instead of the passes.
    """

    vocabulary: Vocabulary
    seed: int
    batch: int
    seq: int
    train_sources: tuple[Drawn, ...]
    heldout_sources: tuple[Drawn, ...]
    weights: tuple[float, ...]
    tokens: int
    lost: int = 0
    texts: int = 1
    static_copies: int = 0
    mixing: Literal["rows", "batches"] = "rows"
    _block: tuple[int, Places] | None = field(default=None, repr=False)

    @property
    def examples(self) -> int:
        """Rows of one pass."""
        return sum(self._quotas())

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of a step of this stage, of several from there on, or some rows of each.

        Any step costs the same.
        """
        positions = np.arange(step * self.batch, (step + steps) * self.batch, dtype=np.int64)
        own = positions.reshape(steps, self.batch)[:, rows or slice(None)].reshape(-1)
        return self._gather(self.train_sources, self._places(own))

    def heldout(self, batch: int, examples: int) -> Iterator[RawBatch]:
        """Whole batches of held-out rows, about ``examples`` in all, in one fixed, mixed order.

        Each batch is of one language or direction; all have their share of the batches, and at
        least one. Rows that do not fill a last batch are left out; if there are fewer rows than
        ``batch``, one batch holds them again and again.
        """
        sizes = [len(source.copies[0]) for source in self.heldout_sources]
        each = zip(self._languages(), self._heldout_batches(batch, examples), strict=True)
        for number, (group, count) in enumerate(each):
            own = [sizes[source] for source in group]
            total = sum(own)
            for start in range(0, count * batch, batch):
                places = np.arange(start, start + batch, dtype=np.int64) % total
                address = ("heldout", number) if number else ("heldout",)
                order = permute(places, total, self.seed, *address)
                sources, rows = _within(own, order)
                zeros = np.zeros(batch, dtype=np.int64)
                chosen = np.array(group)[sources]
                yield self._gather(self.heldout_sources, Places(chosen, zeros, zeros, rows))

    def heldout_rows(self, batch: int, examples: int) -> int:
        """How many rows ``heldout`` yields."""
        return sum(self._heldout_batches(batch, examples)) * batch

    def _heldout_batches(self, batch: int, examples: int) -> list[int]:
        """Held-out batches of each language or direction."""
        sizes = [len(source.copies[0]) for source in self.heldout_sources]
        totals = [sum(sizes[source] for source in group) for group in self._languages()]
        wanted = [max(1, math.ceil(examples * n / sum(sizes) / batch)) for n in totals]
        return [min(w, max(n // batch, 1)) for w, n in zip(wanted, totals, strict=True)]

    def _languages(self) -> list[list[int]]:
        """The sources of each language or direction, in the order they are first met."""
        found: dict[tuple[int, int], list[int]] = {}
        for number, source in enumerate(self.train_sources):
            found.setdefault(source.languages, []).append(number)
        return list(found.values())

    def _quotas(self) -> list[int]:
        """Rows that one pass takes from each source."""
        largest = max(self.weights)
        return [
            max(1, round(source.sizes[0] * weight / largest))
            for source, weight in zip(self.train_sources, self.weights, strict=True)
        ]

    def _places(self, positions: NDArray[np.int64]) -> Places:
        """Places of positions in the endless sequence of examples, looked up a block at a time."""
        if not len(positions):
            return self._look_up(positions)
        first, last = int(positions[0]) // BLOCK, int(positions[-1]) // BLOCK
        if first != last or int(positions.min()) < first * BLOCK:
            return self._look_up(positions)
        if self._block is None or self._block[0] != first:
            block = np.arange(first * BLOCK, (first + 1) * BLOCK)
            self._block = (first, self._look_up(block))
        chosen, known = positions - first * BLOCK, self._block[1]
        return Places(
            known.sources[chosen], known.epochs[chosen], known.copies[chosen], known.rows[chosen]
        )

    def _look_up(self, positions: NDArray[np.int64]) -> Places:
        quotas, groups = self._quotas(), [list(range(len(self.train_sources)))]
        if self.mixing == "batches":
            groups = self._languages()
        batches = [max(1, round(sum(quotas[n] for n in group) / self.batch)) for group in groups]
        steps, within = np.divmod(positions, self.batch)
        if len(groups) > 1:
            chosen, nth = mixed(steps, batches, self.seed, "batches")
            positions = nth * self.batch + within
        else:
            chosen = np.zeros_like(positions)
        sources, draws = np.empty_like(positions), np.empty_like(positions)
        for number, group in enumerate(groups):
            mine, address = chosen == number, ("mix", number) if number else ("mix",)
            own = [quotas[source] for source in group]
            found, draws[mine] = mixed(positions[mine], own, self.seed, *address)
            sources[mine] = np.array(group)[found]
        result = Places(sources, *(np.zeros_like(positions) for _ in range(3)))
        for number, source in enumerate(self.train_sources):
            mine = sources == number
            epochs, copies, rows = _draw(source.sizes, draws[mine], self.seed, number)
            result.epochs[mine], result.copies[mine], result.rows[mine] = epochs, copies, rows
        return result

    def _gather(self, drawn: tuple[Drawn, ...], places: Places) -> RawBatch:
        vocabulary = self.vocabulary
        batch = empty_batch(len(places.rows), self.seq, self.texts, vocabulary.pad)
        groups = places.sources << COPY_BITS | places.copies
        for group in set(groups.tolist()):
            source = drawn[group >> COPY_BITS]
            at = np.flatnonzero(groups == group)
            batch.languages[at] = source.languages
            copy = source.copies[group & (1 << COPY_BITS) - 1]
            if isinstance(copy, Packs):
                rows, which = copy.open(places.rows[at])
                assemble_packed(source.ids, rows, batch, at[which], vocabulary.cls, vocabulary.sep)
            else:
                rows = copy[places.rows[at]]
                assemble(source.ids, rows, batch, at.tolist(), vocabulary.cls, vocabulary.sep)
        batch.example_ids[:] = groups << ROW_BITS | places.rows
        batch.copies[:] = (
            places.epochs % self.static_copies if self.static_copies else places.epochs
        )
        return batch


def mixed(
    positions: NDArray[np.int64], quotas: list[int], seed: int, *address: str | int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of which of several things each position is, and how many of it came before.

    Every pass has each as often as its quota says, in an order of its own.
    """
    total = sum(quotas)
    passes, within = np.divmod(positions, total)
    if len(quotas) > 1:
        for turn in np.unique(passes):
            now = passes == turn
            within[now] = permute(within[now], total, seed, *address, int(turn))
    chosen, draws = _within(quotas, within)
    return chosen, draws + passes * np.array(quotas)[chosen]


def _within(
    sizes: list[int], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of several ranges laid end to end each position falls in, and where in it."""
    ends = np.cumsum(sizes, dtype=np.int64)
    found = np.searchsorted(ends, positions, side="right")
    return found, positions - (ends - np.array(sizes, dtype=np.int64))[found]


def _draw(
    sizes: list[int], draws: NDArray[np.int64], seed: int, source: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(epoch, copy, row) of each draw from a source; its copies are read in turn, over and over."""
    rounds, within = np.divmod(draws, sum(sizes))
    copies, rows = _within(sizes, within)
    epochs = rounds * len(sizes) + copies
    for epoch in np.unique(epochs):
        now = epochs == epoch
        size = sizes[int(epoch) % len(sizes)]
        rows[now] = permute(rows[now], size, seed, "order", source, int(epoch))
    return epochs, copies, rows
