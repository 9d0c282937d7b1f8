"""Characters of text by token, of vocabularies that spell every byte of it."""

import numpy as np
from numpy.typing import NDArray

from bertc.data.vocab.vocabulary import Vocabulary, byte_signs, is_byte_level


def characters_by_token(vocabulary: Vocabulary) -> NDArray[np.int64] | None:
    """Characters (v,) that begin in each token, 0 for special ones; None if tokens lose text.

    Vocabularies of bytes alone keep all text: others lose white space, capitals or rare characters.
    """
    tokenizer = vocabulary.tokenizer
    if not is_byte_level(tokenizer) or tokenizer.normalizer is not None:
        return None
    # Bytes that go on with a character of UTF-8: 10xxxxxx.
    inside = {sign for byte, sign in byte_signs().items() if byte & 0b11000000 == 0b10000000}
    counts = np.zeros(vocabulary.size, dtype=np.int64)
    for token, number in tokenizer.get_vocab(with_added_tokens=False).items():
        counts[number] = sum(sign not in inside for sign in token)
    counts[vocabulary.special] = 0
    return counts
