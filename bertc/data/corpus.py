"""The arrow of this room: what a resolved program reads, prepared once and opened as batches."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertc.data.existing import load_vocabulary
from bertc.data.learned import learn
from bertc.data.packs import Packs, open_packs, write_packs
from bertc.data.progress import Progress
from bertc.data.rows import Arrangement, open_rows, write_rows
from bertc.data.running import RunningData
from bertc.data.sample import sample
from bertc.data.smoothing import draw_weights, texts_of
from bertc.data.source import Source, Text, open_source
from bertc.data.spool import spooled
from bertc.data.stage import Drawn, StageData
from bertc.data.store import fingerprint, obtain
from bertc.data.stream_pairs import StreamPairs
from bertc.data.task import TaskData
from bertc.data.task_sets import digest, read_tasks
from bertc.data.tokenise import tokenise
from bertc.data.tokens import PARTS, Tokens, open_tokens, token_dtype
from bertc.data.vocabulary import Vocabulary, from_tokenizer
from bertc.ir.data import RUNNING, Parallel, StreamPair, TokenizerFile
from bertc.ir.objective import Masked, Objective, StaticMasking
from bertc.ir.resolved import Resolved, Stage

TextData = StageData | RunningData | StreamPairs
AnyData = TextData | TaskData
"""The batches of a stage."""

VERSION = 2
"""Part of every fingerprint: raised when the same text would be prepared differently."""

ROW_COPIES = 10
"""Under dynamic masking rows that chance has a part in are drawn anew for this many passes."""

LOST_WORTH_A_NOTE = 0.001


@dataclass(frozen=True, eq=False)
class Corpus:
    """All that a run reads. ``fingerprint`` names the content, not where or when it was written.

    ``facts`` holds, for each source, its name and its counts of tokens, sentences and documents.
    """

    resolved: Resolved
    vocabulary: Vocabulary
    fingerprint: str
    facts: tuple[dict[str, Any], ...]
    stages: tuple[AnyData, ...]

    def stage(self, index: int) -> AnyData:
        """The batches of a stage, by its place in ``resolved.stages``."""
        return self.stages[index]


def prepare(resolved: Resolved, cache: Path, progress: Progress) -> Corpus:
    """Read, tokenise and arrange everything a program asks for, or open what was prepared before.

    Raises:
        MissingInputError: a source is not there.
        DataError: a source or vocabulary cannot be used.
        CannotWriteError: the cache cannot be written.
    """
    texts = dict.fromkeys(text for stage in resolved.stages for _, text in texts_of(stage))
    sources = {text: spooled(open_source(*text), cache, progress) for text in texts}
    vocabulary = _vocabulary(resolved, sources or _sources_named(resolved), cache, progress)
    holdout = resolved.run.holdout
    tokenised = {
        text: _tokenised(source, vocabulary, holdout, cache, progress)
        for text, source in sources.items()
    }
    vocabulary = replace(vocabulary, unigram=_unigram(resolved, tokenised, vocabulary.size))
    stages = tuple(
        _stage(stage, resolved, vocabulary, tokenised, cache, progress) for stage in resolved.stages
    )
    return Corpus(
        resolved,
        vocabulary,
        _content(resolved, vocabulary, tokenised, stages),
        tuple(part.facts for part in tokenised.values()),
        stages,
    )


def _content(
    resolved: Resolved,
    vocabulary: Vocabulary,
    tokenised: dict[Text, "_Tokenised"],
    read: tuple[AnyData, ...],
) -> str:
    """Fingerprint of the text and of all that turns it into batches, wherever it lies."""
    stages: list[object] = []
    for stage, data in zip(resolved.stages, read, strict=True):
        if isinstance(data, TaskData):
            stages.append((digest(data), stage.batch, stage.smoothing))
            continue
        shares = [
            (weight, {**tokenised[text].facts, "name": ""}, text.languages)
            for weight, text in texts_of(stage)
        ]
        form = stage.format.model_dump(mode="json")
        draws = (stage.batch, stage.pack, stage.smoothing, stage.mixing)
        stages.append((shares, form, stage.pairs, stage.seq, *draws))
    return fingerprint(VERSION, _spelling(vocabulary), stages, resolved.run.seed)


def _sources_named(resolved: Resolved) -> dict[Text, Source]:
    """Where nothing but tasks is learned, the text that a new vocabulary is learned from."""
    texts = (Text(share.corpus) for stage in resolved.stages for share in stage.data)
    return {text: open_source(*text) for text in dict.fromkeys(texts)}


@dataclass(frozen=True, eq=False)
class _Tokenised:
    """A source in the cache: its folder's name, its facts, both its parts, its token counts."""

    name: str
    facts: dict[str, Any]
    train: Tokens
    heldout: Tokens
    counts: NDArray[np.int64]


def _spelling(vocabulary: Vocabulary) -> str:
    return fingerprint(vocabulary.tokenizer.to_str())


def _vocabulary(
    resolved: Resolved, sources: dict[Text, Source], cache: Path, progress: Progress
) -> Vocabulary:
    node = resolved.vocabulary
    if isinstance(node, TokenizerFile):
        return load_vocabulary(node, rows=resolved.encoder.vocab_size)

    alone = _alone(sources)

    def make(folder: Path) -> dict[str, int]:
        texts = sample(alone, progress, node.smoothing)
        progress.begin(f"learning {node.size:,} tokens", 0, "bytes")
        tokenizer = learn(node, texts)
        progress.end()
        tokenizer.save(str(folder / "tokenizer.json"))
        return {"size": tokenizer.get_vocab_size()}

    read = [(language, source.identity) for language, source in alone]
    name = fingerprint(VERSION, node.model_dump(mode="json"), read)
    folder = cache / "vocabularies" / name
    facts = obtain(folder, make, progress)
    if facts["size"] < node.size:
        progress.note(f"the corpus gives {facts['size']:,} of {node.size:,} tokens asked for")
    return from_tokenizer(Tokenizer.from_file(str(folder / "tokenizer.json")), str(folder))


def _alone(sources: dict[Text, Source]) -> list[tuple[str, Source]]:
    """All text with its language, that of pairs side by side, none of it twice."""
    found = {}
    for text, source in sources.items():
        if isinstance(text.corpus, Parallel):
            for side, language in enumerate(text.corpus.languages):
                found[Text(text.corpus, side)] = (language, open_source(text.corpus, side))
        else:
            found[text] = (text.languages[0], source)
    return list(found.values())


def _tokenised(
    source: Source, vocabulary: Vocabulary, holdout: float, cache: Path, progress: Progress
) -> _Tokenised:
    dtype = token_dtype(vocabulary.size)
    name = fingerprint(VERSION, source.identity, _spelling(vocabulary), holdout)
    folder = cache / "tokens" / name
    facts = obtain(
        folder,
        lambda folder: tokenise(folder, source, vocabulary, holdout, progress),
        progress,
        source.text_bytes * np.dtype(dtype).itemsize // 4,
    )
    train, heldout = (open_tokens(folder, part, dtype) for part in PARTS)
    counts = np.fromfile(folder / "train.counts", dtype=np.int64)
    return _Tokenised(name, dict(facts), train, heldout, counts)


def _unigram(
    resolved: Resolved, tokenised: dict[Text, _Tokenised], size: int
) -> NDArray[np.float64]:
    """How often each token is read, over the tokens that all steps of the run read."""
    unigram = np.zeros(size)
    for stage in resolved.stages:
        drawn = zip(texts_of(stage), _weights(stage, tokenised), strict=True)
        counts = sum(weight * tokenised[text].counts for (_, text), weight in drawn)
        unigram += stage.steps * stage.tokens_per_step * counts / max(1, np.sum(counts))
    total = float(unigram.sum())
    return unigram / total if total else unigram


def _weights(stage: Stage, tokenised: dict[Text, _Tokenised]) -> tuple[float, ...]:
    """How often a row of each text is drawn, beside one of another."""
    texts = texts_of(stage)
    tokens = [int(tokenised[text].facts["train"]["tokens"]) for _, text in texts]
    return draw_weights(texts, tokens, stage.smoothing)


def _stage(
    stage: Stage,
    resolved: Resolved,
    vocabulary: Vocabulary,
    tokenised: dict[Text, _Tokenised],
    cache: Path,
    progress: Progress,
) -> AnyData:
    """Arrange each source in as many copies as the steps of the stage will read."""
    if stage.tasks:
        return read_tasks(stage, vocabulary, resolved.run.seed, progress)
    static = max((_static_copies(term.objective) for term in stage.objective), default=0)
    if stage.format.kind in RUNNING:
        return _running(stage, resolved, vocabulary, tokenised, static)
    train, heldout, read, lost = [], [], 0, 0
    weights, seed = _weights(stage, tokenised), resolved.run.seed
    for (_, text), weight in zip(texts_of(stage), weights, strict=True):
        source = tokenised[text]
        first, second = (_number(resolved, language) for language in text.languages)
        copies: list[NDArray[Any] | Packs] = []
        arrangement = Arrangement(stage.format, stage.pairs, stage.seq, seed, 0, text.paired)
        most = (static or ROW_COPIES) if arrangement.drawn else 1
        while len(copies) < most and sum(map(len, copies)) < stage.steps * stage.batch:
            how = replace(arrangement, copy=len(copies))
            rows, facts = _arranged(source, "train", how, stage, cache, progress)
            copies.append(rows)
            if how.copy == 0:
                read += round(facts["tokens"] * weight / max(weights))
                lost += facts["lost"]
        train.append(Drawn(source.train.ids, tuple(copies), (first, second)))
        rows, _ = _arranged(source, "heldout", arrangement, stage, cache, progress)
        heldout.append(Drawn(source.heldout.ids, (rows,), (first, second)))
    if lost > LOST_WORTH_A_NOTE * read:
        progress.note(f"stage {stage.name}: {lost:,} tokens are cut off to fit {stage.seq}")
    return StageData(
        vocabulary,
        seed,
        stage.batch,
        stage.seq,
        tuple(train),
        tuple(heldout),
        weights,
        read,
        lost,
        stage.texts,
        static,
        stage.mixing,
    )


def _number(resolved: Resolved, language: str) -> int:
    """The place of a language among those of the run; text without one comes after them."""
    known = resolved.languages
    return known.index(language) if language else len(known)


def _running(
    stage: Stage,
    resolved: Resolved,
    vocabulary: Vocabulary,
    tokenised: dict[Text, _Tokenised],
    static: int,
) -> RunningData | StreamPairs:
    """The sources of a stage as they are: there is nothing to arrange."""
    texts = [text for _, text in texts_of(stage)]
    train = tuple(tokenised[text].train for text in texts)
    heldout = tuple(tokenised[text].heldout for text in texts)
    languages = tuple(_number(resolved, text.languages[0]) for text in texts)
    weights = _weights(stage, tokenised)
    if isinstance(stage.format, StreamPair):
        return StreamPairs(
            vocabulary,
            resolved.run.seed,
            stage.batch,
            stage.seq,
            stage.parts[0],
            stage.format.both_ways,
            train,
            heldout,
            languages,
            weights,
            static,
        )
    return RunningData(
        vocabulary,
        stage.batch,
        stage.seq,
        tuple(tokens.ids for tokens in train),
        tuple(tokens.ids for tokens in heldout),
        languages,
        weights,
        static,
    )


def _static_copies(objective: Objective) -> int:
    if isinstance(objective, Masked) and isinstance(objective.masking, StaticMasking):
        return objective.masking.copies
    return 0


def _arranged(
    source: _Tokenised,
    part: str,
    how: Arrangement,
    stage: Stage,
    cache: Path,
    progress: Progress,
) -> tuple[NDArray[Any] | Packs, dict[str, int]]:
    tokens = source.train if part == "train" else source.heldout
    name = fingerprint(
        VERSION, source.name, part, how.format.model_dump(mode="json"), how.pairs, how.seq,
        how.paired, (how.seed, how.copy) if how.drawn else (),
    )  # fmt: skip
    folder = cache / "rows" / name
    facts = obtain(folder, lambda folder: write_rows(folder, tokens, how), progress)
    rows = open_rows(folder)
    if not stage.pack:
        return rows, dict(facts)
    packs = cache / "packs" / fingerprint(VERSION, name, how.seq, stage.texts, how.seed, how.copy)
    obtain(
        packs,
        lambda folder: write_packs(folder, rows, how.seq, stage.texts, how.seed, how.copy),
        progress,
    )
    return open_packs(packs, rows), dict(facts)
