"""A bounded sample of the corpus to learn a vocabulary from; all of it if small."""

import hashlib
from collections import defaultdict

from bertc.ir.data import Sentences
from bertc.text.cache.store import Progress
from bertc.text.sources.source import LanguageSources, all_of, split_sentences

SAMPLE_CHARACTERS = 64 << 20
MAX_PARTS = 64
"""Most parts of a source that are read for the sample, evenly spread."""
_HASHES = 1 << 64


def sample(
    sources: LanguageSources,
    progress: Progress,
    smoothing: float = 1.0,
    most: int = SAMPLE_CHARACTERS,
) -> list[str]:
    """Sentences of documents chosen by hash, at most about ``most`` characters of them."""
    entries: list[tuple[int, str, Sentences, str]] = []
    rank_limit, characters = _HASHES, 0
    for language, source in sources:
        parts = source.parts[:: -(-len(source.parts) // MAX_PARTS)] if source.parts else (source,)
        total = sum(part.total for part in parts)
        progress.begin(f"reading {source.name} for the vocabulary", total, source.unit)
        for text, _, amount, _ in all_of(part.read for part in parts):
            rank = _rank(text)
            if rank < rank_limit:
                entries.append((rank, text, source.sentences, language))
                characters += len(text)
            while characters > most and len(entries) > 1:
                rank_limit //= 2
                entries = [entry for entry in entries if entry[0] < rank_limit]
                characters = sum(len(text) for _, text, _, _ in entries)
            progress.advance(amount)
        progress.end()
    sentences = [
        (name, sentence)
        for _, text, how, name in entries
        for sentence in split_sentences(text, how)
    ]
    return _thin_sentences(sentences, smoothing)


def _thin_sentences(sentences: list[tuple[str, str]], smoothing: float) -> list[str]:
    """Sentences thinned so that languages have shares p^smoothing, chosen by hash."""
    if smoothing == 1:
        return [sentence for _, sentence in sentences]
    size: dict[str, float] = defaultdict(float)
    for language, sentence in sentences:
        size[language] += len(sentence)
    rarest = min(size.values(), default=1.0)
    rank_limit = {
        name: (rarest / characters) ** (1 - smoothing) * _HASHES
        for name, characters in size.items()
    }
    return [sentence for name, sentence in sentences if _rank(f"{sentence}\0") < rank_limit[name]]


def _rank(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample")
    return int.from_bytes(digest.digest(), "little")
