"""Text of a run: passes over it, its preparation and download, and whether reading keeps up."""

from collections import defaultdict
from collections.abc import Sequence
from math import log
from typing import NamedTuple

from bertc.base.cores import available_cores
from bertc.cost.figures import DataEstimate
from bertc.cost.machines.device import LOADED_TOKENS

PREPARED_BYTES = 2.5e6
"""Bytes of text that a core of an EPYC prepares in a second.

Measured on 39 English books, with vocabularies of 30,522 by WordPiece and 32,000 by BPE."""
BYTES_A_TOKEN, TOKENS_A_SENTENCE = 4.6, 28
"""Means of the same text."""
START_BYTES = 8
"""Bytes of the start of a sentence in prepared text."""


class TextFacts(NamedTuple):
    """Sizes of a text; ``counted`` tokens are those of prepared text, others a guess.

    Of ``remote`` text each machine has a cache of ``cache_bytes``, 0 for all of it, and the parts
    of two windows, ``window_bytes``, in any case.
    """

    name: str
    text_bytes: int
    tokens: int
    sentences: int
    id_bytes: int
    counted: bool
    remote: bool = False
    cache_bytes: int = 0
    window_bytes: int = 0

    @property
    def prepared_bytes(self) -> int:
        """Bytes of the text as it is prepared: ids, and the starts of sentences."""
        return self.id_bytes * self.tokens + START_BYTES * self.sentences


def guess_facts(name: str, size_bytes: int, id_bytes: int) -> TextFacts:
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
    tokens_read, seconds = 0, 0.0
    for stage_read, stage_seconds, texts in read:
        if texts is None:
            return None
        if not texts:  # a stage of tasks
            continue
        drawn = sum(weight * text.tokens for weight, text in texts)
        for weight, text in texts:
            passes[text] += weight * stage_read / drawn
        tokens_read += stage_read
        seconds += stage_seconds
    if not passes:
        return None
    remote = {text: count for text, count in passes.items() if text.remote}
    download = sum(download_size(text, count) for text, count in remote.items())
    asked = sum(text.prepared_bytes * count for text, count in remote.items())
    unprepared = sum(text.text_bytes for text in passes if not text.counted)
    cores = available_cores()
    return DataEstimate(
        text_bytes=sum(text.text_bytes for text in passes),
        tokens=sum(text.tokens for text in passes), counted=not unprepared, tokens_read=tokens_read,
        passes=max(passes.values()), prepared_bytes=sum(text.prepared_bytes for text in passes),
        prepare_seconds=unprepared / (cores * PREPARED_BYTES), cores=cores,
        download_bytes=int(download), cache_hit_share=1 - download / asked if asked else 0.0,
        over_cache_bytes=sum(t.window_bytes for t in remote if 0 < t.cache_bytes < t.window_bytes),
        reader_share=tokens_read / (processes * LOADED_TOKENS) / seconds,
    )  # fmt: skip


def download_size(text: TextFacts, passes: float) -> float:
    """Bytes that each machine copies from a store.

    Each pass has another order of shards, and the cache drops the one read longest ago: a cache of
    c of the text then has c + (1 - c) ln(1 - c) of what a later pass reads.
    """
    stays = max(text.cache_bytes, text.window_bytes) / text.prepared_bytes
    cached = min(1.0, stays) if text.cache_bytes else 1.0
    hits = cached + (1 - cached) * log(1 - cached) if cached < 1 else 1.0
    return text.prepared_bytes * (min(1.0, passes) + max(0.0, passes - 1) * (1 - hits))
