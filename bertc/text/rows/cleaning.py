"""Documents that are left out while text is tokenised, by the rules of ``clean``."""

import hashlib
import unicodedata
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import several
from bertc.ir.cleaning import EVERY, Documents
from bertc.text.cache.store import Facts
from bertc.text.rows.tokens import SPLITS, TokenWriter

UNICODE = 0x110000
RANGES = 16
"""Ranges in which hashes are compared, so that memory is little more than theirs."""


class Traits(NamedTuple):
    """Counts of a document, read so far; ``key`` hashes it without case and white space."""

    characters: int
    words: int
    letters: int
    visible: int
    key: int


NO_TRAITS = Traits(0, 0, 0, 0, 0)


class Measure:
    """Traits of a document, piece by piece; only what the rules need is computed."""

    def __init__(self, rules: Documents) -> None:
        self._rules = rules

    def add(self, text: str, first: bool) -> Traits:
        """The traits of the document up to this piece of it."""
        if first:
            self._traits = NO_TRAITS
            self._hash = hashlib.blake2b(digest_size=8, person=b"document")
        characters, words, letters, visible, key = self._traits
        if self._rules.unique:
            self._hash.update("".join(text.casefold().split()).encode("utf-8", "surrogatepass"))
            key = int.from_bytes(self._hash.digest(), "little")
        if self._rules.letters:
            codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
            kinds = np.bincount(_kinds()[codes], minlength=3)
            letters, visible = letters + int(kinds[1]), visible + int(kinds[0] + kinds[1])
        words += len(text.split())
        self._traits = Traits(characters + len(text), words, letters, visible, key)
        return self._traits


@cache
def _kinds() -> NDArray[np.uint8]:
    """For each character: 1 of a letter or its mark, 2 of white space, else 0."""
    characters = map(chr, range(UNICODE))
    kinds = (2 if c.isspace() else unicodedata.category(c)[0] in "LM" for c in characters)
    return np.fromiter(kinds, np.uint8, UNICODE)


class CleanWriter:
    """Writer of both splits of a text, which takes back the documents that rules remove.

    ``words`` counts those of the others, as white space separates them.
    With ``unique`` the keys of the documents are written too, as ``train.hashes``.
    """

    def __init__(self, folder: Path, dtype: Any, separator: int, rules: Documents) -> None:
        self._writers = {name: TokenWriter(folder, name, dtype, separator) for name in SPLITS}
        self._folder, self._rules = folder, rules
        self._current = SPLITS[0]
        self._traits = NO_TRAITS
        self._keys = {name: array("Q") for name in SPLITS}
        self._known = set[int]()
        self.removed = Counter[str]()
        self.words = 0

    def begin(self, split: str) -> None:
        """Start a document, after the decision on the one before."""
        self._decide()
        self._current = split
        self._writers[split].begin()

    def add(self, ids: NDArray[Any], lengths: NDArray[np.int64], traits: Traits) -> None:
        """Add sentences of the document, whose traits so far these are."""
        self._writers[self._current].add(ids, lengths)
        self._traits = traits

    def _decide(self) -> None:
        writer = self._writers[self._current]
        tokens = writer.tokens_of_document
        if not tokens:
            return
        if self._rules != EVERY and (rule := self._broken(tokens)):
            self.removed[rule] += 1
            writer.take_back()
            return
        self.words += self._traits.words
        if self._rules.unique:
            self._known.add(self._traits.key)
            self._keys[self._current].append(self._traits.key)

    def _broken(self, tokens: int) -> str:
        """The first rule that a document breaks, or ""."""
        rules, (characters, _, letters, visible, key) = self._rules, self._traits
        broken = {
            "shortest": characters < rules.shortest,
            "longest": rules.longest and characters > rules.longest,
            "letters": letters < rules.letters * visible,
            "tokens": rules.tokens and tokens > rules.tokens * characters,
            "unique": rules.unique and key in self._known,
        }
        return next((rule for rule, breaks in broken.items() if breaks), "")

    def close(self) -> None:
        """End the last document and the files."""
        self._decide()
        for name, writer in self._writers.items():
            writer.close()
            if self._rules.unique:
                (self._folder / f"{name}.hashes").write_bytes(self._keys[name].tobytes())

    def abandon(self) -> None:
        """Close the files without finishing them."""
        for writer in self._writers.values():
            writer.abandon()


def keys_in(folder: Path) -> NDArray[np.uint64]:
    """The keys of the documents of both splits of a text."""
    return np.concatenate([np.fromfile(folder / f"{name}.hashes", np.uint64) for name in SPLITS])


def copies(parts: Sequence[NDArray[np.uint64]]) -> dict[int, NDArray[np.uint64]]:
    """Keys of documents that an earlier part has too, by the number of their part."""
    keys, ends = np.concatenate(parts), np.cumsum([len(part) for part in parts])
    later = []
    for number in range(RANGES):
        in_range = np.flatnonzero(keys.view(np.uint8)[7::8] // (256 // RANGES) == number)
        later.append(np.delete(in_range, np.unique(keys[in_range], return_index=True)[1]))
    places = np.sort(np.concatenate(later))
    split = np.split(keys[places], np.searchsorted(places, ends[:-1]))
    return {number: part for number, part in enumerate(split) if len(part)}


def removal_text(removed: Facts) -> str:
    """Numbers of removed documents in words; empty if there are none."""
    by_rule = ", ".join(f"{count:,} by {rule}" for rule, count in removed.items())
    documents = several(sum(removed.values()), "document")
    return f"clean removed {documents}: {by_rule}" if removed else ""
