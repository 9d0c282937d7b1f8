"""A bounded part of the corpus to learn a vocabulary from: all of it when it is small."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from bertc.data.cache.progress import Progress
from bertc.data.sources.sentences import split
from bertc.data.sources.source import Source
from bertc.ir.data import Sentences

SAMPLE_CHARACTERS = 64 << 20
_HASHES = 1 << 64


def sample(
    sources: Sequence[tuple[str, Source]],
    progress: Progress,
    smoothing: float = 1.0,
    most: int = SAMPLE_CHARACTERS,
) -> list[str]:
    """Sentences of whole documents (or pieces of long ones), at most about ``most`` characters.

    Which documents is decided by their hashes, so a larger corpus keeps a fair part of each source
    and the same corpus always gives the same sample. Memory holds the sample alone. Sources come
    with the names of their languages; of each a part is kept that makes its share p^smoothing.
    """
    kept: list[tuple[int, str, Sentences, str]] = []
    below, held = _HASHES, 0
    for language, source in sources:
        progress.begin(f"reading {source.name} for the vocabulary", source.total, source.unit)
        for text, _, amount, _ in source.read():
            rank = _rank(text)
            if rank < below:
                kept.append((rank, text, source.sentences, language))
                held += len(text)
            while held > most and len(kept) > 1:
                below //= 2
                kept = [entry for entry in kept if entry[0] < below]
                held = sum(len(text) for _, text, _, _ in kept)
            progress.advance(amount)
        progress.end()
    sentences = [(name, each) for _, text, how, name in kept for each in split(text, how)]
    return _thinned(sentences, smoothing)


def _thinned(sentences: list[tuple[str, str]], smoothing: float) -> list[str]:
    """The sentences without some of the commoner languages, chosen by their hashes."""
    if smoothing == 1:
        return [sentence for _, sentence in sentences]
    size: dict[str, float] = defaultdict(float)
    for language, sentence in sentences:
        size[language] += len(sentence)
    rarest = min(size.values(), default=1.0)
    below = {name: (rarest / own) ** (1 - smoothing) * _HASHES for name, own in size.items()}
    return [sentence for name, sentence in sentences if _rank(f"{sentence}\0") < below[name]]


def _rank(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample")
    return int.from_bytes(digest.digest(), "little")
