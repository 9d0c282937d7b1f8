"""An endless text: the sources of a stage end to end, repeated pass by pass.

Axes: b rows, s places of a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertc.data.rows.tokens import Ids, Offsets


@dataclass(frozen=True, eq=False)
class Endless:
    """An endless text; each pass takes ``quotas`` tokens of the sources and continues each."""

    texts: tuple[Ids, ...]
    quotas: NDArray[np.int64]
    sentences: tuple[Offsets, ...] = ()
    """Starts of the sentences of each text; needed by ``begins`` only."""

    @property
    def tokens(self) -> int:
        """The number of tokens of one pass."""
        return int(self.quotas.sum())

    @property
    def ends(self) -> NDArray[np.int64]:
        """The end of each source in the first pass."""
        return np.cumsum(self.quotas)

    def sources(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The source at each place; places may be negative."""
        return np.searchsorted(self.ends, places % self.tokens, side="right")

    def read(self, places_bs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at places (b, s)."""
        if len(self.texts) == 1:
            return self.texts[0].take(places_bs, mode="wrap").astype(np.int64)
        sources_bs, at_bs = self._within(places_bs)
        tokens_bs = np.empty_like(places_bs)
        for number, text in enumerate(self.texts):
            here_bs = sources_bs == number
            tokens_bs[here_bs] = text.take(at_bs[here_bs], mode="wrap")
        return tokens_bs

    def begins(self, places_bs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True (b, s) where a sentence begins."""
        sources_bs, at_bs = self._within(places_bs)
        begins_bs = np.empty(places_bs.shape, dtype=np.bool_)
        for number, (text, starts) in enumerate(zip(self.texts, self.sentences, strict=True)):
            here_bs = sources_bs == number
            places_n = at_bs[here_bs] % len(text)
            begins_bs[here_bs] = starts[np.searchsorted(starts, places_n)] == places_n
        return begins_bs

    def _within(self, places_bs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source of each place, and the position in it, counted on over passes."""
        passes_bs, within_bs = np.divmod(places_bs, self.tokens)
        sources_bs = np.searchsorted(self.ends, within_bs, side="right")
        begins = self.ends - self.quotas
        return sources_bs, within_bs - begins[sources_bs] + passes_bs * self.quotas[sources_bs]


def endless(
    texts: tuple[Ids, ...], weights: tuple[float, ...], sentences: tuple[Offsets, ...] = ()
) -> Endless:
    """An endless text whose pass reads texts of the largest weight once, of others a part."""
    largest = max(weights)
    quotas = (
        max(1, round(len(text) * weight / largest))
        for text, weight in zip(texts, weights, strict=True)
    )
    return Endless(texts, np.fromiter(quotas, dtype=np.int64), sentences)


def by_language(
    languages: tuple[int, ...], sizes: tuple[int, ...]
) -> Iterator[tuple[int, list[int], float]]:
    """Each language with the indices of its texts and its share of all tokens."""
    for language in dict.fromkeys(languages):
        members = [number for number, of_text in enumerate(languages) if of_text == language]
        yield language, members, sum(sizes[number] for number in members) / sum(sizes)
