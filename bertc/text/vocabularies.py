"""The vocabulary of a run: named, learned, or made from that of ``init``, once, in the cache."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import is_file, is_taken, user_path
from bertc.base.storage.plain_file import read_text
from bertc.ir.data import Parallel, Sentences
from bertc.ir.program import Resolved, Run
from bertc.ir.vocabulary import Extended, Fixed, Listed, TokenizerFile, Trimmed, Unigram
from bertc.text.cache.store import Facts, Progress, fingerprint, obtain
from bertc.text.shards import VERSION, spelling, tokenise_source
from bertc.text.sources.opening import open_source
from bertc.text.sources.source import CorpusText, LanguageSources, Sources, all_of, split_sentences
from bertc.text.vocab import changed
from bertc.text.vocab.fixed import known_vocabulary
from bertc.text.vocab.learned import learn
from bertc.text.vocab.vocabulary import Vocabulary, from_tokenizer, load_vocabulary

LARGEST_LIST_BYTES = 64 << 20
MOST_UNFILLED = 500
"""Rows of a vocabulary for each token that its text gives, from which on its size is a slip."""
FIRST_CHARACTERS = 1 << 19
"""Text of a source on which tokens a word are counted."""
MOST_SAMPLED = 64 << 20
"""Characters of the sample, about."""
MAX_PARTS = 64
"""Most parts of a source that are read for the sample, evenly spread."""
_HASHES = 1 << 64


def base_of(node: Extended | Trimmed) -> Vocabulary:
    """The vocabulary that another is made from."""
    return load_vocabulary(TokenizerFile(path=node.path))


def words_of(node: Extended) -> tuple[list[str], int]:
    """The words of the file that a vocabulary gets, and how many more are tokens already."""
    assert isinstance(node.words, str), "a number of words is taken from the text"
    text = read_text(user_path(node.words), LARGEST_LIST_BYTES)
    return changed.words_in_file(base_of(node), node.words, text)


def changed_vocabulary(
    node: Extended | Trimmed, texts: LanguageSources, run: Run, cache: Path, progress: Progress
) -> Vocabulary:
    """The vocabulary with words added to it or tokens removed, by the text and its languages."""
    base = base_of(node)
    read = [(language, source.identity) for language, source in texts]
    how: Sequence[object]
    match node:
        case Extended(words=str()):
            read, how = [], words_of(node)[0]
        case Extended(words=words, smoothing=smoothing):
            how = [words, smoothing]
        case Trimmed(tokens=tokens):
            how = [tokens, run.clean.model_dump(exclude_defaults=True)]

    def make() -> Tokenizer:
        match node:
            case Extended(words=int(wanted)):
                words = changed.words_in_text(base, sample(texts, progress, smoothing), wanted)
                if len(words) < wanted:
                    progress.note(f"the text has only {len(words):,} of {wanted:,} words to add")
                return changed.extended(base, words)
            case Extended():
                return changed.extended(base, words_of(node)[0])
            case Trimmed():
                everything = run.model_copy(update={"holdout": 0.0})
                read = [tokenise_source(s, base, everything, cache, progress) for _, s in texts]
                counts = np.sum([text.counts for text in read], axis=0)
                return changed.trim_tokenizer(base, counts, node.tokens)

    name = fingerprint(VERSION, node.kind, how, spelling(base), read)
    return _made(cache / "vocabularies" / name, make, progress, base)


def _made(
    folder: Path, make: Callable[[], Tokenizer], progress: Progress, base: Vocabulary | None = None
) -> Vocabulary:
    """The vocabulary in a folder of the cache, which is made if it is not there."""

    def fill(aside: Path) -> Facts:
        tokenizer = make()
        (aside / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
        return {"size": tokenizer.get_vocab_size()}

    obtain(folder, fill, progress)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if base is None:
        return from_tokenizer(tokenizer, str(folder))
    passed_on = {k: v for k, v in base.passed_on.items() if k != "tokenizer_class"}
    return from_tokenizer(tokenizer, str(folder), base.named, passed_on)


def vocabulary_for(
    resolved: Resolved, sources: Sources, cache: Path, progress: Progress, learned: Path | None
) -> Vocabulary:
    """The vocabulary of a program, learned from its sources where it is one to learn."""
    node, by_sentencepiece = resolved.vocabulary, isinstance(resolved.vocabulary, Unigram)
    if learned and is_file(learned / "tokenizer.json"):
        # Of a run whose tokenizer was read from a folder that is gone, or made before pieces were
        # learned by sentencepiece.
        gone = isinstance(node, TokenizerFile | Listed) and not is_taken(user_path(node.path))
        if gone or by_sentencepiece or isinstance(node, Extended | Trimmed):
            node = TokenizerFile(path=str(learned))
    if isinstance(node, TokenizerFile | Fixed):
        return known_vocabulary(node, rows=resolved.encoder.vocab_size)
    if not sources:  # of stages that learn tasks too, and read none
        texts = (CorpusText(share.corpus) for stage in resolved.stages for share in stage.data)
        sources = {text: open_source(*text) for text in dict.fromkeys(texts)}
    monolingual = _monolingual(sources)
    if isinstance(node, Extended | Trimmed):
        return changed_vocabulary(node, monolingual, resolved.run, cache, progress)

    def make() -> Tokenizer:
        texts = sample(monolingual, progress, node.smoothing)
        progress.begin(f"learning {node.size:,} tokens", 0, "bytes")
        tokenizer = learn(node, texts)
        progress.end()
        size = tokenizer.get_vocab_size()
        if size < node.size / MOST_UNFILLED:
            few = f"the text gives only {size:,} of {node.size:,} tokens"
            raise DataError(few, f"vocab={node.kind}({size}), or more text")
        if size < node.size:  # once: a run that opens it from the cache does not repeat it
            progress.note(f"the corpus gives only {size:,} of {node.size:,} tokens")
        return tokenizer

    read = [(language, source.identity) for language, source in monolingual]
    trainer = ["sentencepiece, white space"] if by_sentencepiece else []
    name = fingerprint(VERSION, node.model_dump(mode="json"), read, *trainer)
    return _made(cache / "vocabularies" / name, make, progress)


def exact(resolved: Resolved, cache: Path, progress: Progress, learned: Path | None) -> Resolved:
    """The program with the size of a trimmed vocabulary that only its text decides."""
    node = resolved.vocabulary
    if not isinstance(node, Trimmed) or node.tokens:
        return resolved
    size = vocabulary_for(resolved, {}, cache, progress, learned).size
    return resolved.with_vocabulary(node.model_copy(update={"size": size}))


def first_pieces(resolved: Resolved) -> Iterator[str]:
    """The beginnings of the texts that a run reads, a sample to count tokens of."""
    named = not resolved.origins.get("data", "").startswith("default")  # else none may be read
    for corpus in dict.fromkeys(share.corpus for stage in resolved.stages for share in stage.data):
        if named and corpus.is_text:
            characters = 0
            for piece in open_source(*CorpusText(corpus)).read():
                yield piece.text
                if (characters := characters + len(piece.text)) > FIRST_CHARACTERS:
                    break


def _monolingual(sources: Sources) -> LanguageSources:
    """Each monolingual source with its language; parallel text as two, none twice."""
    sources_by_text = {}
    for text, source in sources.items():
        if isinstance(text.corpus, Parallel):
            for side, language in enumerate(text.corpus.languages):
                half = CorpusText(text.corpus, side)
                sources_by_text[half] = language, open_source(*half)
        else:
            sources_by_text[text] = (text.languages[0], source)
    return list(sources_by_text.values())


def sample(sources: LanguageSources, progress: Progress, smoothing: float = 1.0) -> list[str]:
    """Sentences of documents chosen by hash, at most about ``MOST_SAMPLED`` characters of them."""
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
            while characters > MOST_SAMPLED and len(entries) > 1:
                rank_limit //= 2
                entries = [entry for entry in entries if entry[0] < rank_limit]
                characters = sum(len(text) for _, text, _, _ in entries)
            progress.advance(amount)
        progress.end()
    sentences = [(name, s) for _, text, how, name in entries for s in split_sentences(text, how)]
    return _thin_sentences(sentences, smoothing)


def _thin_sentences(sentences: list[tuple[str, str]], smoothing: float) -> list[str]:
    """Sentences thinned so that languages have shares p^smoothing, chosen by hash."""
    if smoothing == 1:
        return [sentence for _, sentence in sentences]
    size: dict[str, float] = defaultdict(float)
    for language, sentence in sentences:
        size[language] += len(sentence)
    rarest = min(size.values(), default=1.0)
    rank_limit = {name: (rarest / n) ** (1 - smoothing) * _HASHES for name, n in size.items()}
    return [sentence for name, sentence in sentences if _rank(f"{sentence}\0") < rank_limit[name]]


def _rank(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample")
    return int.from_bytes(digest.digest(), "little")
