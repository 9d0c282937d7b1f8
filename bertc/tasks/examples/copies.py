"""Copies of training examples, stored: functions of a seed, their example and their number.

Words are masked and n-grams stay alone, or words are replaced by likely ones: Tang et al. 2019,
"Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", 3.3 (castorini/d-bert:
augment_data.py, augment_paired_data.py); TinyBERT, data_augmentation.py.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np

from bertc.base.storage import durable
from bertc.base.storage.paths import user_path
from bertc.base.storage.plain_file import opened
from bertc.ir.address import key
from bertc.ir.learning import AnyTask, augmentation
from bertc.ir.learning.vector_task import Mined
from bertc.tasks.examples.mined import VectorNetworks, mined
from bertc.tasks.layouts.example import ChoiceExample, Example, Examples, TextExample
from bertc.text.batches.order import permute
from bertc.text.cache.store import Progress, fingerprint, obtain
from bertc.text.vocab.token_rows import nearest_words, read_vectors

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
VERSION = 1
COPIES_FILE = "copies.jsonl"
MOST_VECTORS = 100_000  # TinyBERT, data_augmentation.py: the words of the file that are read
TURNS = ((0,), (1,), (0, 1))
"""Texts of a pair that its copies change, in turns."""


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


def edit(node: augmentation.EditedCopies, text: SplitText, mask: str, random: Random) -> str:
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


class WordNetworks(VectorNetworks, Protocol):
    """Networks by their folders, loaded on first use."""

    def candidates(
        self,
        folder: str,
        texts: Sequence[SplitText],
        places: Sequence[Sequence[int]],
        number: int,
        progress: Progress,
    ) -> Iterator[Mapping[int, tuple[str, ...]]]:
        """The likeliest words at each of some places, for words of one piece; by text."""


@dataclass(frozen=True)
class Copier:
    """The means of making copies: a cache, trained networks, and the mask of the vocabulary."""

    cache: Path
    networks: WordNetworks | None
    mask: str
    progress: Progress

    def copies(
        self, title: str, examples: Examples, augment: Sequence[augmentation.Augmentation]
    ) -> list[Example]:
        """Copies of some examples, with their labels or scores."""
        originals = [example for example in examples if isinstance(example, TextExample)]
        texts = [example.texts for example in originals]
        content = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        added: list[Example] = []
        for source in augment:
            if not isinstance(source.copies, augmentation.Changes):
                continue
            node = source.model_dump(mode="json")
            inputs = [VERSION, node, self.mask, content, self._identity(source.copies)]
            folder = self.cache / "copies" / fingerprint(*inputs)
            make = partial(self._make, title, texts, source, source.copies)
            facts = obtain(folder, make, self.progress)
            if facts["repeated"]:
                self.progress.note(
                    f"{title}: {facts['repeated']:,} of {facts['made']:,} copies repeat their "
                    "example or another copy, and are left out"
                )
            with opened(folder / COPIES_FILE) as file:
                for line in file:
                    index, changed = json.loads(line)
                    name = f"{originals[index].key}, copy {len(added) + 1}"
                    added.append(replace(originals[index], key=name, texts=tuple(changed)))
        return added

    def with_negatives(self, task: AnyTask, examples: Examples) -> Examples:
        """Pairs with their mined negatives; other examples as they are."""
        node = getattr(task, "negatives", None)
        if not isinstance(node, Mined):
            return examples
        assert self.networks, "a program with mined negatives comes with networks"
        rows = [e for e in examples if isinstance(e, TextExample | ChoiceExample)]
        pairs = [
            (e.texts[0], e.texts[1]) if isinstance(e, TextExample) else (e.question, e.choices[0])
            for e in rows
        ]
        negatives_mined = mined(node, task.title, pairs, self.networks, self.cache, self.progress)
        return [
            replace(example, texts=example.texts + negatives)
            if isinstance(example, TextExample)
            else replace(example, choices=example.choices + negatives)
            for example, negatives in zip(rows, negatives_mined, strict=True)
        ]

    def _identity(self, node: augmentation.Changes) -> list[str]:
        if not isinstance(node, augmentation.ReplacedCopies):
            return []
        assert self.networks, "a program with replaced words comes with networks"
        files = [user_path(node.vectors)] if node.vectors else []
        return [self.networks.digest(node.model), *map(durable.digest, files)]

    def _make(
        self,
        title: str,
        texts: Sequence[tuple[str, ...]],
        source: augmentation.Augmentation,
        node: augmentation.Changes,
        folder: Path,
    ) -> dict[str, int]:
        copied, total = source.counts(len(texts))
        chosen = permute(np.arange(copied), len(texts), node.seed, "copied", node.kind).tolist()
        counts = {i: total // copied + (nth < total % copied) for nth, i in enumerate(chosen)}
        change = self._change(node, texts, sorted(chosen))

        def copy(index: int, number: int) -> tuple[str, ...]:
            random = Random(key(node.seed, "copy", node.kind, index, number))
            turn = TURNS[number % len(TURNS)] if len(texts[index]) > 1 else (0,)
            parts = enumerate(texts[index])
            return tuple(change(text, random) if nth in turn else text for nth, text in parts)

        self.progress.begin(f"copying examples of {title}", total, "rows")
        repeated = 0
        with (folder / COPIES_FILE).open("w", encoding="utf-8") as file:
            for index, count in sorted(counts.items()):
                copies = [copy(index, number) for number in range(count)]
                different = [copy for copy in dict.fromkeys(copies) if copy != texts[index]]
                file.writelines(json.dumps([index, copy]) + "\n" for copy in different)
                repeated += count - len(different)
                self.progress.advance(count)
        self.progress.end()
        return {"made": total, "repeated": repeated}

    def _change(
        self, node: augmentation.Changes, texts: Sequence[tuple[str, ...]], chosen: Sequence[int]
    ) -> Callable[[str, Random], str]:
        """The change of a text, with what networks and vectors say of all texts."""
        match node:
            case augmentation.EditedCopies():
                return lambda text, random: edit(node, split_text(text), self.mask, random)
            case augmentation.ReplacedCopies():
                copied = chain.from_iterable(texts[index] for index in chosen)
                split = [split_text(text) for text in dict.fromkeys(copied)]
                candidates = self._candidates(node, split)
                likely = {t.text: (t, words) for t, words in zip(split, candidates, strict=True)}
                chance = node.probability
                return lambda text, random: replaced(*likely[text], chance, random)

    def _candidates(
        self, node: augmentation.ReplacedCopies, texts: Sequence[SplitText]
    ) -> Sequence[Candidates]:
        places, number = [replaceable(text) for text in texts], node.candidates
        assert self.networks, "a program with replaced words comes with networks"
        candidates = [*self.networks.candidates(node.model, texts, places, number, self.progress)]
        if not node.vectors:
            return candidates
        vectors = read_vectors(node.vectors, self.progress, most=MOST_VECTORS)
        words = [{i: text.words[i].lower() for i in replaceable(text)} for text in texts]
        near = nearest_words(vectors, {word for row in words for word in row.values()}, number)
        # Words of several pieces have neighbours alone.
        return [
            {place: near[word] for place, word in row.items() if near.get(word)} | dict(likely)
            for row, likely in zip(words, candidates, strict=True)
        ]
