"""Vocabularies made from that of ``init`` and the text of a run, each once, in the cache."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from bertc.base.storage.paths import user_path
from bertc.base.storage.plain_file import read_text
from bertc.data.cache.store import Facts, Progress, fingerprint, obtain
from bertc.data.rows.sample import sample
from bertc.data.shards import VERSION, spelling, tokenise_source
from bertc.data.sources.source import LanguageSources
from bertc.data.vocab import changed
from bertc.data.vocab.existing import load_vocabulary
from bertc.data.vocab.vocabulary import Vocabulary, from_tokenizer
from bertc.ir.program.resolved import Run
from bertc.ir.vocabulary import Extended, TokenizerFile, Trimmed

LARGEST_LIST_BYTES = 64 << 20


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

    def make(folder: Path) -> Facts:
        match node:
            case Extended(words=int(wanted)):
                words = changed.words_in_text(base, sample(texts, progress, smoothing), wanted)
                if len(words) < wanted:
                    progress.note(f"the text has only {len(words):,} of {wanted:,} words to add")
                tokenizer = changed.extended(base, words)
            case Extended():
                tokenizer = changed.extended(base, words_of(node)[0])
            case Trimmed():
                everything = run.model_copy(update={"holdout": 0.0})
                read = [tokenise_source(s, base, everything, cache, progress) for _, s in texts]
                counts = np.sum([text.counts for text in read], axis=0)
                tokenizer = changed.trimmed(base, counts, node.tokens)
        (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
        return {"size": tokenizer.get_vocab_size()}

    name = fingerprint(VERSION, node.kind, how, spelling(base), read)
    folder = cache / "vocabularies" / name
    obtain(folder, make, progress)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    passed_on = {k: v for k, v in base.passed_on.items() if k != "tokenizer_class"}
    return from_tokenizer(tokenizer, str(folder), base.named, passed_on)
