"""Arrangement of a stage's text in rows, in as many copies as its steps will read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.batches.order import draw_weights, orders_of, proportioned, texts_of
from bertc.data.batches.packs import ENDS_FILE, MEMBERS_FILE, Packs, write_packs
from bertc.data.batches.running import RunningData
from bertc.data.batches.stage import SourceRows, StageData
from bertc.data.batches.stream_pairs import StreamPairs
from bertc.data.cache.store import Progress, fingerprint, obtain
from bertc.data.rows.index import ROW, ROWS_FILE, Arrangement, write_rows
from bertc.data.rows.tokens import Tokens, mapped
from bertc.data.sources.source import CorpusText
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.ir.data import RUNNING, StreamPair
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.ir.terms.masking import StaticMasking

TextData = StageData | RunningData | StreamPairs
"""Batches of a stage that reads text."""

VERSION = 2
"""Version of the preparation, in every fingerprint: raised when its results change."""

ROW_COPIES = 10
"""Passes with different random rows under dynamic masking."""

LOST_WORTH_A_NOTE = 0.001
"""Fraction of lost tokens from which it is reported."""


@dataclass(frozen=True, eq=False)
class Tokenised:
    """A tokenised source in the cache; ``counts`` (v,) are of its training tokens."""

    name: str
    facts: dict[str, Any]
    train: Tokens
    heldout: Tokens
    counts: NDArray[np.int64]


def _weights(stage: Stage, tokenised: dict[CorpusText, Tokenised]) -> tuple[float, ...]:
    texts = [(weight, text) for weight, text, _ in orders_of(stage)]
    tokens = [int(tokenised[text].facts["train"]["tokens"]) for _, text in texts]
    return draw_weights(texts, tokens, stage.smoothing)


def arrange(
    stage: Stage,
    resolved: Resolved,
    vocabulary: Vocabulary,
    tokenised: dict[CorpusText, Tokenised],
    cache: Path,
    progress: Progress,
) -> TextData:
    """Arrange each source in as many copies as the steps of the stage will read."""
    maskings = [term.objective.masks.masking for term in stage.objective if term.objective.masks]
    static_copies = max((m.copies for m in maskings if isinstance(m, StaticMasking)), default=0)
    if stage.format.kind in RUNNING:
        return _running(stage, resolved, vocabulary, tokenised, static_copies)
    train, heldout, tokens, lost, seed = [], [], [], 0, resolved.run.seed
    for _, text, swapped in orders_of(stage):
        source = tokenised[text]
        arrangement = Arrangement(
            stage.format, stage.pairs, stage.seq, seed, 0, text.paired, swapped
        )
        copies, facts = _copies(source, arrangement, static_copies, stage, cache, progress)
        tokens.append(facts["tokens"])
        lost += facts["lost"]
        first, second = text.languages[::-1] if swapped else text.languages
        languages = _number(resolved, first), _number(resolved, second)
        train.append(SourceRows(source.train.ids, tuple(copies), languages))
        rows, _ = _arranged(source, "heldout", arrangement, stage, cache, progress)
        heldout.append(SourceRows(source.heldout.ids, (rows,), languages))
    weights = proportioned(
        _weights(stage, tokenised),
        [drawn.sizes[0] for drawn in train],
        [text.paired for _, text, _ in orders_of(stage)],
        stage.mixing.translations,
    )
    # Tokens of all sources while the one drawn most often is read once.
    shares = zip(tokens, weights, strict=True)
    tokens_read = sum(round(count * weight / max(weights)) for count, weight in shares)
    if lost > LOST_WORTH_A_NOTE * tokens_read:
        progress.note(f"stage {stage.name}: {lost:,} tokens are cut off to fit {stage.seq}")
    # Kernels and heads take room for so many in each row, so it is not the most that might be.
    copies_read = (rows for source in (*train, *heldout) for rows in source.copies)
    texts = max((r.texts_per_row for r in copies_read if isinstance(r, Packs)), default=1)
    fields = (vocabulary, seed, stage.batch, stage.seq, tuple(train), tuple(heldout), weights)
    return StageData(*fields, tokens_read, lost, texts, static_copies, stage.mixing.kind)


def _copies(
    source: Tokenised,
    arrangement: Arrangement,
    static_copies: int,
    stage: Stage,
    cache: Path,
    progress: Progress,
) -> tuple[list[NDArray[Any] | Packs], dict[str, int]]:
    """Training rows in as many copies as the stage reads, and the facts of the first copy."""
    rows, facts = _arranged(source, "train", arrangement, stage, cache, progress)
    max_copies = (static_copies or ROW_COPIES) if arrangement.drawn else 1
    copies = [rows]
    rows_read = (stage.first_batch + stage.steps) * stage.batch
    while len(copies) < max_copies and sum(map(len, copies)) < rows_read:
        another = replace(arrangement, copy=len(copies))
        copies.append(_arranged(source, "train", another, stage, cache, progress)[0])
    return copies, facts


def _number(resolved: Resolved, language: str) -> int:
    """The index of a language of the run; one past the last for text without a language."""
    known = resolved.languages
    return known.index(language) if language else len(known)


def _running(
    stage: Stage,
    resolved: Resolved,
    vocabulary: Vocabulary,
    tokenised: dict[CorpusText, Tokenised],
    static_copies: int,
) -> RunningData | StreamPairs:
    texts = [text for _, text in texts_of(stage)]
    train = tuple(tokenised[text].train for text in texts)
    heldout = tuple(tokenised[text].heldout for text in texts)
    languages = tuple(_number(resolved, text.languages[0]) for text in texts)
    weights = _weights(stage, tokenised)
    fields = (vocabulary, stage.batch, stage.seq, train, heldout, languages, weights, static_copies)
    if isinstance(stage.format, StreamPair):
        seed, both_ways = resolved.run.seed, stage.format.both_ways
        reuse = stage.format.parts(stage.seq)[0]
        return StreamPairs(*fields, seed=seed, reuse=reuse, both_ways=both_ways)
    return RunningData(*fields)


def _arranged(
    source: Tokenised,
    part: str,
    arrangement: Arrangement,
    stage: Stage,
    cache: Path,
    progress: Progress,
) -> tuple[NDArray[Any] | Packs, dict[str, int]]:
    tokens = source.train if part == "train" else source.heldout
    name = fingerprint(
        VERSION, source.name, part, arrangement.format.model_dump(mode="json"),
        arrangement.pairs, arrangement.seq, arrangement.paired, arrangement.swapped,
        (arrangement.seed, arrangement.copy) if arrangement.drawn else (),
    )  # fmt: skip
    folder = cache / "rows" / name
    facts = obtain(folder, lambda folder: write_rows(folder, tokens, arrangement), progress)
    rows = mapped(folder / ROWS_FILE, ROW)
    if not stage.pack:
        return rows, dict(facts)
    packing = (arrangement.seq, stage.texts, arrangement.seed, arrangement.copy)
    packs = cache / "packs" / fingerprint(VERSION, name, *packing)
    obtain(packs, lambda folder: write_packs(folder, rows, *packing), progress)
    members, ends = (mapped(packs / name, np.int64) for name in (MEMBERS_FILE, ENDS_FILE))
    return Packs(rows, members, ends), dict(facts)
