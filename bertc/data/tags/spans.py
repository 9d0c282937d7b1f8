"""Spans of a text, and the codes of its tokens that say in which span each stands."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.data.rows.codes import LABEL_BITS
from bertc.ir.terms.masking import TAG_BITS


class Span(NamedTuple):
    """Characters of a text from ``begin`` to before ``end``, and their label."""

    begin: int
    end: int
    label: str


class Codes:
    """Codes of tokens: the number of a label, and a bit that differs from the span before.

    So spans are runs of one code, in either direction, even if they adjoin.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = ("", *labels)
        self._numbers = {label: number for number, label in enumerate(labels, 1)}
        self._spans = 0
        self._counts = np.zeros((2, len(labels) + 1), dtype=np.int64)

    def counts(self) -> list[tuple[str, int, int]]:
        """Each label with the number of its spans and of their tokens, first none at all."""
        return list(zip(self._labels, *self._counts.tolist(), strict=True))

    def of(
        self, offsets: Sequence[Sequence[tuple[int, int]]], spans: Sequence[Sequence[Span]]
    ) -> NDArray[np.uint32]:
        """Codes of the tokens of some sentences, given the characters that each stands for.

        A token is in the first span of which it has a character.
        """
        limits = [
            max(0, *(end for _, end in of_tokens[-1:]), *(span.end for span in each[-1:])) + 1
            for of_tokens, each in zip(offsets, spans, strict=True)
        ]
        bases = np.concatenate(([0], np.cumsum(limits, dtype=np.int64)))
        flat = [(base + b, base + e) for base, each in zip(bases, offsets, strict=False)
                for b, e in each]  # fmt: skip
        tokens = np.array(flat, dtype=np.int64).reshape(-1, 2)
        placed = [
            (base + span.begin, base + span.end, self._numbers[span.label])
            for base, each in zip(bases, spans, strict=False)
            for span in each
        ]
        begins, ends, numbers = np.array([*placed, (bases[-1] + 1,) * 2 + (0,)]).T
        turns = (self._spans + np.arange(len(numbers))) % 2
        self._spans += len(placed)
        at = np.searchsorted(ends, tokens[:, 0], side="right")
        within = (begins[at] < tokens[:, 1]) & (tokens[:, 0] < tokens[:, 1])
        codes = np.where(within, numbers[at] + (turns[at] << TAG_BITS), 0)
        for count, labels in zip(self._counts, (numbers[:-1], codes & LABEL_BITS), strict=True):
            count += np.bincount(labels, minlength=len(count))
        return codes.astype(np.uint32)
