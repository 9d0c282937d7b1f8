"""Arrangement of a stage's text in rows, in as many copies as its steps will read."""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.ir.data import RUNNING, WINDOW, Prepared, StreamPair
from bertc.ir.learning.augmentation import chance_of_turns
from bertc.ir.program import Resolved, Stage, TaskStage
from bertc.ir.terms.masking import StaticMasking
from bertc.text.batches.batch import ENDS_FILE, MEMBERS_FILE, Packs, complementary, write_packs
from bertc.text.batches.order import draw_weights, orders_of, set_proportions, texts_of
from bertc.text.batches.running import RunningData
from bertc.text.batches.stage import IndexedIds, ShardedRows, SourceRows, StageData
from bertc.text.batches.stream_pairs import StreamPairs
from bertc.text.cache.store import Facts, Progress, fingerprint, obtain
from bertc.text.rows.index import ROW, ROWS_FILE, Arrangement, write_rows
from bertc.text.rows.tokens import Tokens, mapped
from bertc.text.shards import VERSION, Shard, Tokenised, TokenisedTexts
from bertc.text.vocab.vocabulary import Vocabulary

TextData = StageData | RunningData | StreamPairs
"""Batches of a stage that reads text."""
ROW_COPIES = 10
"""Passes with different random rows under dynamic masking."""
LOST_WORTH_A_NOTE = 0.001
"""Fraction of lost tokens from which it is reported."""
_Place = tuple[Stage, Path, Progress]
"""A stage whose text is arranged, the cache, and the receiver of progress."""


def _weights(stage: Stage, tokenised: TokenisedTexts) -> tuple[float, ...]:
    texts = [(weight, text) for weight, text, _ in orders_of(stage)]
    tokens = [int(tokenised[text].facts["train"]["tokens"]) for _, text in texts]
    return draw_weights(texts, tokens, stage.smoothing)


def arrange(
    stage: Stage,
    resolved: Resolved,
    vocabulary: Vocabulary,
    tokenised: TokenisedTexts,
    cache: Path,
    progress: Progress,
) -> TextData:
    """Arrange each source in as many copies as the steps of the stage will read.

    1. Cut the tokens of each source into rows; the cache keeps them.
    2. Weigh the sources; count the tokens of one pass over that of the largest weight.
    """
    maskings = [term.objective.masks.masking for term in stage.objective if term.objective.masks]
    static_copies = max((m.copies for m in maskings if isinstance(m, StaticMasking)), default=0)
    if stage.format.kind in RUNNING:
        return _running(stage, resolved, vocabulary, tokenised, static_copies)
    train, heldout, tokens, lost, seed = [], [], [], 0, resolved.run.seed
    place = stage, cache, progress
    arranged = zip(orders_of(stage), arrangements(stage, resolved), strict=True)
    for (_, text, swapped), arrangement in arranged:
        source, corpus = tokenised[text], text.corpus
        window = corpus.window if isinstance(corpus, Prepared) else WINDOW
        copies, facts = _copies(source, arrangement, static_copies, window, place)
        tokens.append(facts["tokens"])
        lost += facts["lost"]
        first, second = text.languages[::-1] if swapped else text.languages
        languages = _number(resolved, first), _number(resolved, second)
        train.append(SourceRows(tuple(copies), languages))
        rows, _ = _arrange_shards(source.heldout, arrangement, place)
        heldout.append(SourceRows((rows,), languages))
    weights = set_proportions(
        _weights(stage, tokenised),
        [len(drawn.copies[0]) for drawn in train],
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
    texts = max(rows.texts for rows in copies_read)
    fields = (vocabulary, seed, stage.batch, stage.seq, tuple(train), tuple(heldout), weights)
    counts = (tokens_read, lost, texts, static_copies)
    chance, seen = chance_of_turns(stage.augment), [text.counts for text in tokenised.values()]
    turns = (chance, complementary(vocabulary, np.sum(seen, axis=0))) if chance else None
    return StageData(*fields, *counts, stage.mixing.kind, turns)


def arrangements(stage: Stage, resolved: Resolved) -> list[Arrangement]:
    """The arrangement of each text of a stage in rows, of its first copy; none of a stream."""
    if isinstance(stage, TaskStage) or stage.format.kind in RUNNING:
        return []
    fields = stage.format, stage.pairs, stage.seq, resolved.run.seed, 0
    return [Arrangement(*fields, text.paired, swapped) for _, text, swapped in orders_of(stage)]


def how(arrangement: Arrangement, stage: Stage) -> str:
    """Digest of all that decides the rows of a text besides the text."""
    packing = _packing(arrangement, stage) if stage.pack else ()
    return fingerprint(VERSION, *_deciding(arrangement), *packing)


def count_rows(tokens: Tokens, arrangement: Arrangement, stage: Stage) -> Facts:
    """Counts of the rows of a text."""
    with tempfile.TemporaryDirectory(prefix="bertc-") as name:
        folder = Path(name)
        counts: dict[str, int] = write_rows(folder, tokens, arrangement)
        if stage.pack:
            rows = _rows_in(folder)
            counts |= write_packs(folder, rows, *_packing(arrangement, stage))
            counts["texts"] = _packs_in(folder, rows).texts_per_row
    return counts


def _deciding(arrangement: Arrangement) -> tuple[object, ...]:
    return (
        arrangement.format.model_dump(mode="json"), arrangement.pairs, arrangement.seq,
        arrangement.paired, arrangement.swapped,
        (arrangement.seed, arrangement.copy) if arrangement.drawn else (),
    )  # fmt: skip


def _packing(arrangement: Arrangement, stage: Stage) -> tuple[int, int, int, int]:
    return arrangement.seq, stage.texts, arrangement.seed, arrangement.copy


def _copies(
    source: Tokenised, arrangement: Arrangement, static_copies: int, window: int, place: _Place
) -> tuple[list[ShardedRows], dict[str, int]]:
    """Training rows in as many copies as the stage reads, and the facts of the first copy."""
    stage = place[0]
    rows, facts = _arrange_shards(source.train, arrangement, place, window)
    much = len(source.train) > WINDOW  # read again seldom, and long to arrange
    max_copies = (static_copies or ROW_COPIES) if arrangement.drawn and not much else 1
    copies = [rows]
    rows_read = (stage.first_batch + stage.steps) * stage.batch
    while len(copies) < max_copies and sum(map(len, copies)) < rows_read:
        another = replace(arrangement, copy=len(copies))
        copies.append(_arrange_shards(source.train, another, place, window)[0])
    return copies, facts


def _number(resolved: Resolved, language: str) -> int:
    """The index of a language of the run; one past the last for text without a language."""
    known = resolved.languages
    return known.index(language) if language else len(known)


def _running(
    stage: Stage,
    resolved: Resolved,
    vocabulary: Vocabulary,
    tokenised: TokenisedTexts,
    static_copies: int,
) -> RunningData | StreamPairs:
    texts = [text for _, text in texts_of(stage)]
    read = [tokenised[text] for text in texts]
    train = tuple(tuple(shard.opened() for shard in source.train) for source in read)
    heldout = tuple(tuple(shard.opened() for shard in source.heldout) for source in read)
    languages = tuple(_number(resolved, text.languages[0]) for text in texts)
    weights = _weights(stage, tokenised)
    fields = (vocabulary, stage.batch, stage.seq, train, heldout, languages, weights, static_copies)
    if isinstance(stage.format, StreamPair):
        seed, both_ways = resolved.run.seed, stage.format.both_ways
        reuse = stage.format.parts(stage.seq)[0]
        return StreamPairs(*fields, seed=seed, reuse=reuse, both_ways=both_ways)
    return RunningData(*fields)


def _arrange_shards(
    shards: tuple[Shard, ...], arrangement: Arrangement, place: _Place, window: int = WINDOW
) -> tuple[ShardedRows, Counter[str]]:
    stage, slow = place[0], any(shard.slow for shard in shards)
    key = how(arrangement, stage)
    if slow and len(shards) > WINDOW and not all(key in shard.counts for shard in shards):
        message = f"the text of stage {stage.name} is prepared for other rows: how many is unknown"
        help = "prepare it with the format, pairs, seq, pack and seed of this spec, or copy it here"
        raise DataError(message, help)
    indexed = [_index(shard, shard.counts.get(key), arrangement, place) for shard in shards]
    total = Counter[str]()
    for shard_rows in indexed:
        total.update(shard_rows.counts)
    return ShardedRows(
        np.array([shard_rows.rows for shard_rows in indexed], dtype=np.int64),
        lru_cache(2 * window)(lambda number: indexed[number].opened()),
        max(shard_rows.texts for shard_rows in indexed), slow, window,
    ), total  # fmt: skip


class Indexed(NamedTuple):
    """The rows of a shard: counts of them, their number, the most examples in one."""

    counts: Facts
    rows: int
    texts: int
    opened: Callable[[], IndexedIds]


def _index(shard: Shard, known: Facts | None, arrangement: Arrangement, place: _Place) -> Indexed:
    """The rows of a shard, written to the cache; of ``known`` ones when they are first read."""
    stage, cache, progress = place

    # Counts of rows, and the folders of their index and of their packs.
    def write(text: Callable[[], Tokens]) -> tuple[Facts, Path, Path | None]:
        name = fingerprint(VERSION, shard.name, shard.part, *_deciding(arrangement))
        # The rows of a copied shard go when it goes.
        folder = cache / (f"shards/{shard.name}-{name}" if shard.slow else f"rows/{name}")
        counts = obtain(folder, lambda folder: write_rows(folder, text(), arrangement), progress)
        if not stage.pack:
            return counts, folder, None
        packing = _packing(arrangement, stage)
        name = fingerprint(VERSION, name, *packing)
        packs = cache / (f"shards/{shard.name}-{name}" if shard.slow else f"packs/{name}")
        packed = obtain(packs, lambda to: write_packs(to, _rows_in(folder), *packing), progress)
        return {**counts, **packed}, folder, packs

    def opened() -> IndexedIds:
        text = shard.opened()
        _, folder, packs = write(lambda: text) if shard.slow or written is None else written
        rows = _rows_in(folder)
        return text.ids, _packs_in(packs, rows) if packs else rows

    written = None if known else write(shard.opened)
    counts = known or (written[0] if written else {})
    if not stage.pack:
        return Indexed(counts, counts["rows"], 1, opened)
    index = None if known else opened()[1]
    texts = index.texts_per_row if isinstance(index, Packs) else counts["texts"]
    return Indexed(counts, counts["packs"], texts, opened)


def _rows_in(folder: Path) -> NDArray[Any]:
    return mapped(folder / ROWS_FILE, ROW)


def _packs_in(folder: Path, rows: NDArray[Any]) -> Packs:
    members, ends = (mapped(folder / name, np.int64) for name in (MEMBERS_FILE, ENDS_FILE))
    return Packs(rows, members, ends)
