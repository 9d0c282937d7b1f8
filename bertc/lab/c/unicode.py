"""Tables for C of what the ``tokenizers`` library makes of each character."""

import base64
import json
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

POINTS, BLOCK, AT_ONCE, SPACED = 0x110000, 256, 4096, 2
LIKE = np.arange(POINTS)
"""A code point that each is like: most of those behind U+33400 have no character."""
LIKE[0x33400:0xF0000], LIKE[0xF0000:], LIKE[0xD800:0xE000] = 0x33400, 0xF0000, 0xFFFF
LIKE[0xE0000:0xE1000] = range(0xE0000, 0xE1000)
LIKE[0xFFFE::0x10000] = LIKE[0xFFFF::0x10000] = 0xFFFF
SEEN, PLACES = np.unique(LIKE, return_inverse=True)
CHARACTERS = [*map(chr, SEEN.tolist())]
Numbers = NDArray[np.uint32]
NO_STEPS = json.loads(Tokenizer(WordLevel({"a": 0}, unk_token="a")).to_str())


def normaliser(*steps: Mapping[str, Any]) -> Callable[[str], str]:
    """The function that some steps of a tokenizer.json are."""
    step = {"type": "Sequence", "normalizers": steps}
    made = Tokenizer.from_str(json.dumps({**NO_STEPS, "normalizer": step}))
    return lambda text: str(made.normalizer.normalize_str(text))


def removed(kind: str, pattern: str) -> Numbers:
    """1 for each code point that a pre-tokenising step removes."""
    step = {"type": kind, "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": False}
    splitter = Tokenizer.from_str(json.dumps({**NO_STEPS, "pre_tokenizer": step})).pre_tokenizer
    numbers = np.ones(len(SEEN), np.uint32)
    for first in range(0, len(SEEN), AT_ONCE):
        text = "".join(CHARACTERS[first : first + AT_ONCE])
        for _, (begin, end) in splitter.pre_tokenize_str(text):
            numbers[first + begin : first + end] = 0
    return numbers[PLACES]


def rewritten(normalise: Callable[[str], str]) -> tuple[Numbers, bytes]:
    """Place and length of what characters become, 0 where they stay, and these texts."""
    places, numbers, texts = dict[bytes, int](), np.zeros(len(SEEN), np.uint32), bytearray()
    for begin in range(0, len(SEEN), BLOCK):
        block = CHARACTERS[begin : begin + BLOCK]
        changes = normalise("".join(block)) != "".join(block)
        for i, character in enumerate(block if changes else (), begin):
            written = (becomes := normalise(character)).encode()
            if becomes == f" {character} ":  # as BERT has Chinese
                numbers[i] = SPACED
            elif becomes != character:
                if places.setdefault(written, len(texts)) == len(texts):
                    texts += written
                numbers[i] = places[written] << 8 | len(written) << 1 | 1
    return numbers[PLACES], bytes(texts)


def orders() -> Numbers:
    """The combining class of each code point; 0 where the library orders no such mark."""
    decomposed, numbers = normaliser({"type": "NFD"}), np.zeros(POINTS, np.uint32)
    for mark in filter(unicodedata.combining, CHARACTERS):
        # U+0345 has the highest class of all.
        if mark == "\u0345" or decomposed(f"\u0345{mark}") == f"{mark}\u0345":
            numbers[ord(mark)] = unicodedata.combining(mark)
    return numbers


def pairs() -> list[int]:
    """Pairs of code points that compose, in order: the first, the second, what they become."""
    composed, triples = normaliser({"type": "NFC"}), list[tuple[int, int, int]]()
    for joint in CHARACTERS:
        parts = unicodedata.normalize("NFD", joint)
        start, last = unicodedata.normalize("NFC", parts[:-1]), parts[-1]
        if len(start) == 1 and composed(start + last) == joint:
            triples.append((ord(start), ord(last), ord(joint)))
    return [point for triple in sorted(triples) for point in triple]


def grapheme_classes() -> dict[str, Numbers]:
    """1 for code points that go on with a grapheme, that the next goes on with, and controls."""
    units, labels = np.zeros(1024, "<u4"), np.arange(1, 256)
    units[0], units[256 ^ labels] = 256 << 10, labels | 256 | 512 << 10
    # Each character becomes an x, and so does a short grapheme.
    table = base64.b64encode(np.uint32(4096).tobytes() + units.tobytes() + b"x\0").decode()
    mapped = normaliser({"type": "Precompiled", "precompiled_charsmap": table})

    def is_one(form: str) -> Numbers:
        ones = [mapped(form.format(character)) == "x" for character in CHARACTERS]
        return np.array(ones, np.uint32)[PLACES]

    return {"JOINS": is_one("a{}"), "PREPENDED": is_one("{}a"), "CONTROL": 1 - is_one("{}\u0301")}
