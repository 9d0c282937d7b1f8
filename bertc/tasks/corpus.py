"""Data of a resolved program: prepared once in the cache, opened as batches; its digests."""

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertc.base.storage import durable
from bertc.base.storage.paths import is_file
from bertc.ir.data import WINDOW, Prepared
from bertc.ir.learning.augmentation import chance_of_turns
from bertc.ir.program import Resolved, TaskStage
from bertc.ir.vocabulary import Fixed
from bertc.tasks.examples.copies import Copier, WordNetworks
from bertc.tasks.examples.task import TaskData, TaskSet
from bertc.tasks.examples.task_sets import read_tasks, task_digest
from bertc.tasks.layouts.parts import dev_parts, part_named
from bertc.text.batches.arranged import TextData, arrange
from bertc.text.batches.order import orders_of, texts_of
from bertc.text.cache.store import Progress, fingerprint, obtain
from bertc.text.prepared.opening import open_prepared
from bertc.text.rows.rewriting import PER_TOKEN
from bertc.text.shards import VERSION, Tokenised, TokenisedTexts, spelling, tokenise_source
from bertc.text.sources.files import file_identity
from bertc.text.sources.opening import open_source
from bertc.text.sources.source import CorpusText, Piece, TextSource
from bertc.text.vocab.fixed import unknown_remark
from bertc.text.vocab.vocabulary import Vocabulary
from bertc.text.vocabularies import vocabulary_for

TEXT_FILE = "text.jsonl"
"""A JSON line [starts a document, text] for each piece of a source."""
AnyData = TextData | TaskData
"""The batches of a stage."""


@dataclass(frozen=True, eq=False)
class PreparedCorpus:
    """The data of a run; ``fingerprint`` is of its content alone."""

    resolved: Resolved
    vocabulary: Vocabulary
    fingerprint: str
    tokenised: TokenisedTexts
    stages: tuple[AnyData, ...]
    """The batches of the stages, in the order of ``resolved.stages``."""

    @property
    def row_lengths(self) -> list[int]:
        """The mean tokens of a row of each stage, for estimates."""
        return [d.row_length if isinstance(d, TaskData) else d.seq for d in self.stages]

    @property
    def texts(self) -> tuple[Tokenised, ...]:
        """The tokenised texts."""
        return tuple(self.tokenised.values())


def prepare(
    resolved: Resolved,
    cache: Path,
    progress: Progress,
    networks: WordNetworks | None = None,
    learned: Path | None = None,
) -> PreparedCorpus:
    """Read, tokenise and arrange the data of a program, or open it from the cache.

    ``networks`` predict words; needed where examples are copied with changed words.
    ``learned`` is the folder of the vocabulary that a run learned, if there is one.
    """
    texts = dict.fromkeys(text for stage in resolved.stages for _, text in texts_of(stage))
    sources = {
        text: _copied(open_source(*text), cache, progress)
        for text in texts
        if not isinstance(text.corpus, Prepared)
    }
    vocabulary = vocabulary_for(resolved, sources, cache, progress, learned)
    tokenised = {
        text: open_prepared(text.corpus, spelling(vocabulary), cache, progress)
        if isinstance(text.corpus, Prepared)
        else tokenise_source(sources[text], vocabulary, resolved.run, cache, progress)
        for text in texts
    }
    if isinstance(node := resolved.vocabulary, Fixed):
        for text, source in sources.items():
            remark = unknown_remark(node, source, vocabulary, tokenised[text].counts)
            if remark:
                progress.note(remark)
    copier = Copier(cache, networks, vocabulary.token(vocabulary.mask), progress)
    task_sets: dict[Hashable, TaskSet] = {}
    read = [
        read_tasks(stage, vocabulary, resolved.run.seed, copier, progress, task_sets)
        if isinstance(stage, TaskStage)
        else arrange(stage, resolved, vocabulary, tokenised, cache, progress)
        for stage in resolved.stages
    ]
    vocabulary = replace(vocabulary, unigram=_unigram(resolved, tokenised, read, vocabulary.size))
    stages = tuple(replace(data, vocabulary=vocabulary) for data in read)
    content = _content(resolved, vocabulary, tokenised, stages)
    return PreparedCorpus(resolved, vocabulary, content, tokenised, stages)


def counts_of_rows(corpus: PreparedCorpus, index: int) -> dict[str, float]:
    """Rows of a pass over the text of a stage, first arranged; mean words of a row, 0: unknown."""
    data = corpus.stages[index]
    assert not isinstance(data, TaskData), "a stage of text"
    read = [corpus.tokenised[text].facts for _, text, _ in orders_of(corpus.resolved.stages[index])]
    tokens = [w * facts["train"]["tokens"] for w, facts in zip(data.weights, read, strict=True)]
    words = [n * facts.get(PER_TOKEN, 0) for n, facts in zip(tokens, read, strict=True)]
    row_words = data.tokens / data.examples * sum(words) / sum(tokens) if all(words) else 0.0
    return {"epoch_rows": data.examples, "row_words": row_words}


def _copied(source: TextSource, cache: Path, progress: Progress) -> TextSource:
    """The same source; of one that is slow to read, a copy of its text in the cache."""
    if not source.slow:
        return source

    def write(folder: Path) -> dict[str, int]:
        size_bytes = 0
        progress.begin(f"reading {source.name}", source.total, source.unit)
        with (folder / TEXT_FILE).open("w", encoding="ascii") as file:
            for text, first, amount, _ in source.read():
                size_bytes += file.write(json.dumps([first, text]) + "\n")
                progress.advance(amount)
        progress.end()
        return {"bytes": size_bytes}

    def read() -> Iterator[Piece]:
        with (folder / TEXT_FILE).open(encoding="ascii") as file:
            for line in file:
                first, text = json.loads(line)
                yield Piece(text, first, len(line))

    folder = cache / "text" / fingerprint(source.identity)
    size = obtain(folder, write, progress, source.text_bytes)["bytes"]
    return replace(source, total=size, unit="bytes", text_bytes=size, read=read)


def _content(
    resolved: Resolved, vocabulary: Vocabulary, tokenised: TokenisedTexts, read: tuple[AnyData, ...]
) -> str:
    """Fingerprint of the text and of all settings that turn it into batches; paths do not count."""
    stages: list[object] = []
    for stage, data in zip(resolved.stages, read, strict=True):
        if isinstance(data, TaskData):
            stages.append((task_digest(data), stage.batch, stage.smoothing))
            continue
        shares = [
            (weight, {**facts, "name": "", **_window(text)}, text.languages)
            for weight, text in texts_of(stage)
            for facts in [{n: f for n, f in tokenised[text].facts.items() if n != PER_TOKEN}]
        ]
        form = stage.format.model_dump(mode="json")
        draws = (stage.batch, stage.pack, stage.smoothing, stage.mixing.model_dump(mode="json"))
        turns = filter(None, [chance_of_turns(stage.augment)])
        stages.append((shares, form, stage.pairs, stage.seq, *draws, *turns))
    return fingerprint(VERSION, spelling(vocabulary), stages, resolved.run.seed)


def _window(text: CorpusText) -> dict[str, int]:
    """The window of prepared text, which decides its order, if it is not the default."""
    window = text.corpus.window if isinstance(text.corpus, Prepared) else WINDOW
    return {} if window == WINDOW else {"window": window}


def _unigram(
    resolved: Resolved, tokenised: TokenisedTexts, read: list[AnyData], size: int
) -> NDArray[np.float64]:
    """The relative frequency (v,) of each token among those that the steps of the run read."""
    unigram = np.zeros(size)
    for stage, data in zip(resolved.stages, read, strict=True):
        if isinstance(data, TaskData):
            continue
        drawn = zip(orders_of(stage), data.weights, strict=True)
        counts = sum(weight * tokenised[text].counts for (_, text, _), weight in drawn)
        unigram += stage.steps * stage.tokens_per_step * counts / max(1, np.sum(counts))
    total = float(unigram.sum())
    return unigram / total if total else unigram


def contents(corpus: PreparedCorpus) -> dict[str, tuple[str, str]]:
    """Identity, which times of files change, and digest of all text and files, by name."""
    read = {}
    for text, known in corpus.tokenised.items():
        name, content = known.facts["name"], known.facts["content"]
        if isinstance(text.corpus, Prepared):
            read[text.corpus.path] = (content, content)
        else:
            read[name] = (fingerprint(open_source(*text).identity), content)
    for task in dict.fromkeys(task for stage in corpus.resolved.stages for task in stage.tasks):
        for part in ("train", *dev_parts(task)):
            path = part_named(task, part).source
            if isinstance(path, Path):  # data sets of a hub have versions there
                files = [file for file in (path, *sorted(path.rglob("*"))) if is_file(file)]
                digests = [(str(file.relative_to(path)), durable.digest(file)) for file in files]
                identity = fingerprint([file_identity(file) for file in files])
                read[str(path)] = (identity, fingerprint(digests))
    return read
