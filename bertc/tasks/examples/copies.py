"""Copies of training examples, stored: functions of a seed, their example and their number."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np

from bertc.base.storage import durable
from bertc.base.storage.paths import user_path
from bertc.base.storage.plain_file import opened
from bertc.ir.address import key
from bertc.ir.learning import augmentation
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.mining import Mined
from bertc.tasks.examples import changes
from bertc.tasks.examples.mined import VectorNetworks, mined
from bertc.tasks.layouts.example import ChoiceExample, Example, Examples, TextExample
from bertc.text.batches.order import permute
from bertc.text.cache.store import Progress, fingerprint, obtain
from bertc.text.sources.vectors import nearest_words, read_vectors

VERSION = 1
COPIES_FILE = "copies.jsonl"
MOST_VECTORS = 100_000  # TinyBERT, data_augmentation.py: the words of the file that are read
TURNS = ((0,), (1,), (0, 1))
"""Texts of a pair that its copies change, in turns."""


class WordNetworks(VectorNetworks, Protocol):
    """Networks by their folders, loaded on first use."""

    def candidates(
        self,
        folder: str,
        texts: Sequence[changes.SplitText],
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
            if isinstance(source.copies, augmentation.NoCopies):
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
        pairs = [
            (e.texts[0], e.texts[1]) if isinstance(e, TextExample) else (e.question, e.choices[0])
            for e in examples
            if isinstance(e, TextExample | ChoiceExample)
        ]
        negatives_mined = mined(node, task.title, pairs, self.networks, self.cache, self.progress)
        return [
            replace(example, texts=example.texts + negatives)
            if isinstance(example, TextExample)
            else replace(example, choices=example.choices + negatives)
            for example, negatives in zip(examples, negatives_mined, strict=True)
            if isinstance(example, TextExample | ChoiceExample)
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
        counts = {i: total // copied + (at < total % copied) for at, i in enumerate(chosen)}
        change = self._change(node, texts, sorted(chosen))

        def copy(index: int, number: int) -> tuple[str, ...]:
            random = Random(key(node.seed, "copy", node.kind, index, number))
            turn = TURNS[number % len(TURNS)] if len(texts[index]) > 1 else (0,)
            parts = enumerate(texts[index])
            return tuple(change(text, random) if at in turn else text for at, text in parts)

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
                return lambda text, random: changes.edit(
                    node, changes.split_text(text), self.mask, random
                )
            case augmentation.ReplacedCopies():
                copied = chain.from_iterable(texts[index] for index in chosen)
                split = [changes.split_text(text) for text in dict.fromkeys(copied)]
                candidates = self._candidates(node, split)
                likely = {text.text: (text, of) for text, of in zip(split, candidates, strict=True)}
                chance = node.probability
                return lambda text, random: changes.replaced(*likely[text], chance, random)

    def _candidates(
        self, node: augmentation.ReplacedCopies, texts: Sequence[changes.SplitText]
    ) -> Sequence[changes.Candidates]:
        places, number = [changes.replaceable(text) for text in texts], node.candidates
        assert self.networks, "a program with replaced words comes with networks"
        candidates = [*self.networks.candidates(node.model, texts, places, number, self.progress)]
        if not node.vectors:
            return candidates
        vectors = read_vectors(node.vectors, self.progress, most=MOST_VECTORS)
        words = [{at: text.words[at].lower() for at in changes.replaceable(text)} for text in texts]
        near = nearest_words(vectors, {word for of in words for word in of.values()}, number)
        # Words of several pieces have neighbours alone.
        return [
            {at: near[word] for at, word in of.items() if near.get(word)} | dict(likely)
            for of, likely in zip(words, candidates, strict=True)
        ]
