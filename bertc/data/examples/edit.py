"""Edited copies of texts: words masked, n-grams alone.

Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", 3.3;
their code is castorini/d-bert: dbert/distill/run/augment_data.py, augment_paired_data.py.
"""

from random import Random

from bertc.data.examples.word_spans import SplitText
from bertc.ir.learning.augmentation import EditedCopies


def edited(node: EditedCopies, text: SplitText, mask: str, random: Random) -> str:
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
