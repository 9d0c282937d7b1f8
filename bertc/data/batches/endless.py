"""Text without an end: the sources of a stage one after another, over and over.

Axes: b rows, s places of a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertc.data.rows.tokens import Ids, Offsets


@dataclass(frozen=True, eq=False)
class Endless:
    """A pass takes ``quotas`` tokens of the sources, of each from where the pass before ended."""

    texts: tuple[Ids, ...]
    quotas: NDArray[np.int64]
    sentences: tuple[Offsets, ...] = ()
    """Where those of each text begin, if anyone is to ask."""

    @property
    def tokens(self) -> int:
        """Of one pass."""
        return int(self.quotas.sum())

    @property
    def ends(self) -> NDArray[np.int64]:
        """Where the sources end in the first pass."""
        return np.cumsum(self.quotas)

    def sources(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The source that each place is in; places may be below 0."""
        return np.searchsorted(self.ends, places % self.tokens, side="right")

    def read(self, places_bs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at some places."""
        if len(self.texts) == 1:
            return self.texts[0].take(places_bs, mode="wrap").astype(np.int64)
        sources_bs, at_bs = self._within(places_bs)
        found_bs = np.empty_like(places_bs)
        for number, text in enumerate(self.texts):
            mine = sources_bs == number
            found_bs[mine] = text.take(at_bs[mine], mode="wrap")
        return found_bs

    def begins(self, places_bs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a sentence begins at some places."""
        sources_bs, at_bs = self._within(places_bs)
        found_bs = np.empty(places_bs.shape, dtype=np.bool_)
        for number, (text, starts) in enumerate(zip(self.texts, self.sentences, strict=True)):
            mine = sources_bs == number
            own = at_bs[mine] % len(text)
            found_bs[mine] = starts[np.searchsorted(starts, own)] == own
        return found_bs

    def _within(self, places_bs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source of each place, and where in it, counted on from pass to pass."""
        passes_bs, within_bs = np.divmod(places_bs, self.tokens)
        sources_bs = np.searchsorted(self.ends, within_bs, side="right")
        begins = self.ends - self.quotas
        return sources_bs, within_bs - begins[sources_bs] + passes_bs * self.quotas[sources_bs]


def endless(
    texts: tuple[Ids, ...], weights: tuple[float, ...], sentences: tuple[Offsets, ...] = ()
) -> Endless:
    """A pass reads the texts of the largest weight once, and of others a part."""
    largest = max(weights)
    quotas = (
        max(1, round(len(text) * weight / largest))
        for text, weight in zip(texts, weights, strict=True)
    )
    return Endless(texts, np.fromiter(quotas, dtype=np.int64), sentences)


def by_language(
    languages: tuple[int, ...], sizes: tuple[int, ...]
) -> Iterator[tuple[int, list[int], float]]:
    """Each language, which of the texts are in it, and its share of their tokens."""
    for language in dict.fromkeys(languages):
        own = [number for number, other in enumerate(languages) if other == language]
        yield language, own, sum(sizes[number] for number in own) / sum(sizes)
