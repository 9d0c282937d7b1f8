"""Text of a run: passes over it, its preparation and download, and whether reading keeps up."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import log
from typing import NamedTuple

from bertc.base.cores import available_cores
from bertc.base.diagnostics import several
from bertc.cost.machines.device import LOADED_TOKENS
from bertc.cost.units import bytes_text, count_text, duration_text

PREPARED_BYTES = 2.5e6
"""Bytes of text that a core of an EPYC prepares in a second.

Measured on 39 English books, with vocabularies of 30,522 by WordPiece and 32,000 by BPE."""
BYTES_A_TOKEN, TOKENS_A_SENTENCE = 4.6, 28
"""Means of the same text."""
START_BYTES = 8
"""Bytes of the start of a sentence in prepared text."""


class TextFacts(NamedTuple):
    """Sizes of a text; ``counted`` tokens are those of prepared text, others a guess.

    Of ``remote`` text each machine has a cache of ``cache_bytes``, 0 for all of it.
    """

    name: str
    text_bytes: int
    tokens: int
    sentences: int
    id_bytes: int
    counted: bool
    remote: bool = False
    cache_bytes: int = 0

    @property
    def prepared_bytes(self) -> int:
        """Bytes of the text as it is prepared: ids, and the starts of sentences."""
        return self.id_bytes * self.tokens + START_BYTES * self.sentences


class DataEstimate(NamedTuple):
    """The text of a run or a stage; ``passes`` are over the text that is drawn most often.

    ``prepare_seconds`` are of ``cores`` cores. Each machine downloads ``download_bytes`` of what
    is in a store, and has ``cache_hit_share`` of its reading from its cache. ``reader_share`` is
    the time of reading over that of training; above 1 training waits.
    """

    text_bytes: int
    tokens: int
    counted: bool
    tokens_read: int
    passes: float
    prepared_bytes: int
    prepare_seconds: float
    cores: int
    download_bytes: int
    cache_hit_share: float
    reader_share: float


def unread(name: str, size_bytes: int, id_bytes: int) -> TextFacts:
    """Facts of text that was not read, by the means of English books."""
    tokens = max(1, int(size_bytes / BYTES_A_TOKEN))
    return TextFacts(name, size_bytes, tokens, tokens // TOKENS_A_SENTENCE, id_bytes, counted=False)


Weighted = tuple[float, TextFacts]
"""A text with its weight: rows are drawn in proportion to weight x tokens."""
Reading = tuple[int, float, Sequence[Weighted] | None]
"""Tokens that a stage reads, its seconds, and its texts; None: not known."""


def data_of(read: Sequence[Reading], processes: int) -> DataEstimate | None:
    """The text of stages of a run on ``processes``; None if a look does not tell."""
    passes: defaultdict[TextFacts, float] = defaultdict(float)
    tokens_read, busy, seconds = 0, 0.0, 0.0
    for stage_read, stage_seconds, texts in read:
        if texts is None:
            return None
        if not texts:  # a stage of tasks
            continue
        drawn = sum(weight * text.tokens for weight, text in texts)
        for weight, text in texts:
            passes[text] += weight * stage_read / drawn
        tokens_read += stage_read
        busy += stage_read / (processes * LOADED_TOKENS)
        seconds += stage_seconds
    if not passes:
        return None
    remote = {text: count for text, count in passes.items() if text.remote}
    download = sum(downloaded(text, count) for text, count in remote.items())
    asked = sum(text.prepared_bytes * count for text, count in remote.items())
    unprepared = sum(text.text_bytes for text in passes if not text.counted)
    cores = available_cores()
    return DataEstimate(
        text_bytes=sum(text.text_bytes for text in passes),
        tokens=sum(text.tokens for text in passes),
        counted=not unprepared,
        tokens_read=tokens_read,
        passes=max(passes.values()),
        prepared_bytes=sum(text.prepared_bytes for text in passes),
        prepare_seconds=unprepared / (cores * PREPARED_BYTES),
        cores=cores,
        download_bytes=int(download),
        cache_hit_share=1 - download / asked if asked else 0.0,
        reader_share=busy / seconds,
    )


def data_rows(run: DataEstimate) -> Iterator[tuple[str, Callable[[DataEstimate], str]]]:
    """Rows of a table; those of preparing and of a store only where there is some of it."""
    yield "text", lambda d: bytes_text(d.text_bytes)
    yield "tokens", lambda d: "about " * (not d.counted) + count_text(d.tokens)
    yield "passes", lambda d: f"{d.passes:.3g}"
    yield "prepared", lambda d: bytes_text(d.prepared_bytes)
    if run.prepare_seconds:
        yield f"preparing, {several(run.cores, 'core')}", lambda d: duration_text(d.prepare_seconds)
    if run.download_bytes:
        yield "download, a machine", lambda d: bytes_text(d.download_bytes)
        yield "read from its cache", lambda d: f"{d.cache_hit_share:.0%}"
    yield (
        "reader, of a step",
        lambda d: f"{d.reader_share:.1%}" + ", it waits" * (d.reader_share > 1),
    )


def downloaded(text: TextFacts, passes: float) -> float:
    """Bytes that each machine copies from a store.

    Each pass has another order of shards, and the cache drops the one read longest ago: a cache of
    c of the text then has c + (1 - c) ln(1 - c) of what a later pass reads.
    """
    held = min(1.0, text.cache_bytes / text.prepared_bytes) if text.cache_bytes else 1.0
    hits = held + (1 - held) * log(1 - held) if held < 1 else 1.0
    return text.prepared_bytes * (min(1.0, passes) + max(0.0, passes - 1) * (1 - hits))
