"""The interface of trained networks that predict words; ``evaluation`` has them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from bertc.data.cache.progress import Progress
from bertc.data.examples.word_spans import SplitText


class WordNetworks(Protocol):
    """Networks by their folders, loaded when they are asked."""

    def digest(self, folder: str) -> str:
        """sha256 of the weights in a folder."""

    def candidates(
        self,
        folder: str,
        texts: Sequence[SplitText],
        places: Sequence[Sequence[int]],
        number: int,
        progress: Progress,
    ) -> Iterator[Mapping[int, tuple[str, ...]]]:
        """The likeliest words at each of some places, for words of one piece; by text."""
