"""Copies of texts: words masked and n-grams alone, or words replaced by likely ones.

Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", 3.3
(castorini/d-bert: augment_data.py, augment_paired_data.py); TinyBERT, data_augmentation.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random

from bertc.ir.learning.augmentation import EditedCopies

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
"""Letters and digits, with apostrophes inside, or a single mark."""
Candidates = Mapping[int, tuple[str, ...]]
"""Words that may stand at a place, by place."""

ENGLISH = re.compile(r"[A-Za-z]+")
_WRITTEN = """
    a an the this that these those such same other another each every all both any some no own
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself
    it its itself we us our ours ourselves they them their theirs themselves
    who whom whose which what when where why how
    am is are was were be been being have has had having do does did doing done
    can could may might must shall should will would ought cannot
    and or but nor so if than then because while until though although unless whether as
    of at by for with about against between into through during before after above below to from up
    down in out on off over under again further once here there
    not only too very just more most few now s t d ll m o re ve y don isn aren wasn weren hasn
    haven hadn doesn didn won wouldn couldn shouldn mustn needn
"""
FUNCTION_WORDS = frozenset(_WRITTEN.split())
"""English words without a meaning of their own, which stay."""


@dataclass(frozen=True)
class SplitText:
    """A text and the (begin, end) of each of its words."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[begin:end] for begin, end in self.spans)

    def with_words(self, words: Sequence[str], first: int, count: int, mask: str) -> str:
        """The text of ``count`` words from ``first`` on; no space is before a mask, as in fill."""
        parts: list[str] = []
        for place in range(first, first + count):
            if parts and words[place] != mask:
                parts.append(self.text[self.spans[place - 1][1] : self.spans[place][0]])
            parts.append(words[place])
        return "".join(parts)


@lru_cache(maxsize=16)  # copies of a text follow each other
def split_text(text: str) -> SplitText:
    """Find the words of a text."""
    return SplitText(text, tuple(match.span() for match in WORD.finditer(text)))


def replaceable(text: SplitText) -> tuple[int, ...]:
    """Places of the words that may be replaced: English ones with a meaning of their own."""
    return tuple(
        place
        for place, word in enumerate(text.words)
        if ENGLISH.fullmatch(word) and word.lower() not in FUNCTION_WORDS
    )


def replaced(text: SplitText, candidates: Candidates, probability: float, random: Random) -> str:
    """A copy of a text, in which each word with candidates is replaced with ``probability``."""
    words = list(text.words)
    for place, likely in sorted(candidates.items()):
        if random.random() < probability:
            words[place] = likely[int(random.random() * len(likely))]
    return text.with_words(words, 0, len(words), "")


def edit(node: EditedCopies, text: SplitText, mask: str, random: Random) -> str:
    """A copy of a text: one draw a word decides, then one for all of the text."""
    words = list(text.words)
    for place in range(len(words)):
        if random.random() < node.mask:
            words[place] = mask
    first, count = 0, len(words)
    if words and random.random() < node.ngram:
        count = min(len(words), 1 + int(random.random() * node.longest))
        first = int(random.random() * (len(words) - count + 1))
    return text.with_words(words, first, count, mask)
