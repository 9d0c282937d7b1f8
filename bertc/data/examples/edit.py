"""Edited copies of texts: words masked or replaced by their part of speech, n-grams alone.

Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", 3.3;
their code is castorini/d-bert: dbert/distill/run/augment_data.py, augment_paired_data.py.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from bertc.data.examples.word_spans import SplitText
from bertc.ir.learning.augmentation import EditedCopies

WordTags = tuple[str, ...]


@dataclass(frozen=True)
class WordsOfTag:
    """Words of a tag, with the running sums of their counts."""

    words: tuple[str, ...]
    sums: tuple[int, ...]

    def draw(self, random: Random) -> str:
        """A word, in proportion to its count."""
        return self.words[bisect_right(self.sums, int(random.random() * self.sums[-1]))]


def words_by_tag(texts: Sequence[SplitText], tags: Sequence[WordTags]) -> dict[str, WordsOfTag]:
    """The words of some texts by their tags: the distribution that replacements are drawn from."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text, of_text in zip(texts, tags, strict=True):
        for word, tag in zip(text.words, of_text, strict=True):
            counts[tag][word] += 1
    return {
        tag: WordsOfTag(tuple(words), tuple(accumulate(words.values())))
        for tag, words in counts.items()
    }


def edited(
    node: EditedCopies,
    text: SplitText,
    tags: WordTags,
    by_tag: Mapping[str, WordsOfTag],
    mask: str,
    random: Random,
) -> str:
    """A copy of a text: one draw a word decides, then one for all of the text.

    Without a tagger ``tags`` and ``by_tag`` are empty.
    """
    words = list(text.words)
    for place in range(len(words)):
        chance = random.random()
        if chance < node.mask:
            words[place] = mask
        elif chance < node.mask + node.pos:
            words[place] = by_tag[tags[place]].draw(random)
    first, count = 0, len(words)
    if words and random.random() < node.ngram:
        count = min(len(words), 1 + int(random.random() * node.longest))
        first = int(random.random() * (len(words) - count + 1))
    return text.with_words(words, first, count, mask)
