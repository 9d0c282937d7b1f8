"""A bounded part of the corpus to learn a vocabulary from: all of it when it is small."""

import hashlib
from collections.abc import Sequence

from bertc.data.progress import Progress
from bertc.data.sentences import split
from bertc.data.source import Source
from bertc.ir.data import Sentences

SAMPLE_CHARACTERS = 64 << 20
_HASHES = 1 << 64


def sample(
    sources: Sequence[Source], progress: Progress, most: int = SAMPLE_CHARACTERS
) -> list[str]:
    """Sentences of whole documents (or pieces of long ones), at most about ``most`` characters.

    Which documents is decided by their hashes, so a larger corpus keeps a fair part of each source
    and the same corpus always gives the same sample. Memory holds the sample alone.
    """
    kept: list[tuple[int, str, Sentences]] = []
    below, held = _HASHES, 0
    for source in sources:
        progress.begin(f"reading {source.name} for the vocabulary", source.total, source.unit)
        for text, _, amount in source.read():
            rank = _rank(text)
            if rank < below:
                kept.append((rank, text, source.sentences))
                held += len(text)
            while held > most and len(kept) > 1:
                below //= 2
                kept = [entry for entry in kept if entry[0] < below]
                held = sum(len(text) for _, text, _ in kept)
            progress.advance(amount)
        progress.end()
    return [sentence for _, text, how in kept for sentence in split(text, how)]


def _rank(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample")
    return int.from_bytes(digest.digest(), "little")
