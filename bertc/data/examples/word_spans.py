"""Words of a text with their places, so that a changed text keeps the spaces between the others."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
"""Letters and digits, with apostrophes inside, or a single mark."""


@dataclass(frozen=True)
class SplitText:
    """A text and the (begin, end) of each of its words."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its words."""
        return tuple(self.text[begin:end] for begin, end in self.spans)

    def with_words(self, words: Sequence[str], first: int, count: int, mask: str) -> str:
        """The text of ``count`` words from ``first`` on, if ``words`` replaced its own.

        The space before a mask belongs to it, as ``bertc fill`` reads masks.
        """
        parts: list[str] = []
        for place in range(first, first + count):
            if parts and words[place] != mask:
                parts.append(self.text[self.spans[place - 1][1] : self.spans[place][0]])
            parts.append(words[place])
        return "".join(parts)


def split_text(text: str) -> SplitText:
    """Find the words of a text."""
    return SplitText(text, tuple(match.span() for match in WORD.finditer(text)))
