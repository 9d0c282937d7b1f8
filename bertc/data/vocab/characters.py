"""Characters of text by token, of vocabularies that spell every byte of it."""

import json

import numpy as np
from numpy.typing import NDArray
from tokenizers import pre_tokenizers

from bertc.data.vocab.vocabulary import Vocabulary


def characters_by_token(vocabulary: Vocabulary) -> NDArray[np.int64] | None:
    """Characters (v,) that begin in each token, 0 for special ones; None if tokens lose text.

    Vocabularies of bytes alone keep all text: others lose white space, capitals or rare characters.
    """
    node = json.loads(vocabulary.tokenizer.to_str())
    steps = node["pre_tokenizer"] or {}
    kinds = [step.get("type") for step in steps.get("pretokenizers", [steps])]
    if "ByteLevel" not in kinds or node["normalizer"] is not None:
        return None
    inside = _continuing()
    counts = np.zeros(vocabulary.size, dtype=np.int64)
    for token, number in vocabulary.tokenizer.get_vocab(with_added_tokens=False).items():
        counts[number] = sum(sign not in inside for sign in token)
    counts[vocabulary.special] = 0
    return counts


def _continuing() -> set[str]:
    """The signs of bytes that go on with a character of UTF-8: 10xxxxxx."""
    shown = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]  # numbered from 256 on, in order
    signs = {byte: chr(byte) for byte in shown}
    signs |= {byte: chr(256 + number) for number, byte in enumerate(hidden)}
    assert set(signs.values()) == set(pre_tokenizers.ByteLevel.alphabet()), "as the library spells"
    return {sign for byte, sign in signs.items() if byte & 0b11000000 == 0b10000000}
