"""An endless text: the sources of a stage end to end, repeated pass by pass.

Axes: b rows, s places of a row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertc.data.rows.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Endless:
    """An endless text; each pass takes ``quotas`` tokens of the sources and continues each."""

    texts: tuple[Tokens, ...]
    quotas: NDArray[np.int64]

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
            return self.texts[0].ids.take(places_bs, mode="wrap").astype(np.int64)
        sources_bs, at_bs = self._within(places_bs)
        tokens_bs = np.empty_like(places_bs)
        for number, text in enumerate(self.texts):
            here_bs = sources_bs == number
            tokens_bs[here_bs] = text.ids.take(at_bs[here_bs], mode="wrap")
        return tokens_bs

    def begins(self, places_bs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True (b, s) where a sentence begins."""
        sources_bs, at_bs = self._within(places_bs)
        begins_bs = np.empty(places_bs.shape, dtype=np.bool_)
        for number, text in enumerate(self.texts):
            here_bs, starts = sources_bs == number, text.sentences
            places_n = at_bs[here_bs] % len(text.ids)
            begins_bs[here_bs] = starts[np.searchsorted(starts, places_n)] == places_n
        return begins_bs

    def _within(self, places_bs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source of each place, and the position in it, counted on over passes."""
        passes_bs, within_bs = np.divmod(places_bs, self.tokens)
        sources_bs = np.searchsorted(self.ends, within_bs, side="right")
        begins = self.ends - self.quotas
        return sources_bs, within_bs - begins[sources_bs] + passes_bs * self.quotas[sources_bs]


def endless(texts: tuple[Tokens, ...], weights: tuple[float, ...]) -> Endless:
    """An endless text whose pass reads texts of the largest weight once, of others a part."""
    shares = [weight / max(weights) for weight in weights]
    quotas = [max(1, round(len(t.ids) * share)) for t, share in zip(texts, shares, strict=True)]
    return Endless(texts, np.array(quotas, dtype=np.int64))
