"""Tokenizers made from others: whole words added, tokens removed."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers

from bertc.base.diagnostics import DataError
from bertc.base.storage.plain_file import shown
from bertc.text.vocab.vocabulary import BLANK, Vocabulary, byte_signs, is_byte_level

UNUSED = re.compile(r"[\[<]\|?(unused|reserved_special_token)_?\d+\|?[\]>]|madeupword\d+")
"""Tokens of published vocabularies that stand for nothing: BERT's, ModernBERT's, Gemma's,
Llama's, and fairseq's."""
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
LEAST_COUNT = 2
LONGEST_WORD = 64
_WORDS = pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True)
"""Words as added tokens match them: no letter, mark, digit or underscore touches them."""


def unused(vocabulary: Vocabulary) -> list[int]:
    """The ids of tokens that stand for nothing."""
    ids = range(vocabulary.size)
    return [number for number in ids if UNUSED.fullmatch(vocabulary.token(number))]


def speller(tokenizer: Tokenizer) -> Callable[[str], str]:
    """The spelling in which added words are searched for: as normalised, unless spaces change."""
    if (normalizer := tokenizer.normalizer) is None or normalizer.normalize_str("a b") != "a b":
        return str
    return cast(Callable[[str], str], normalizer.normalize_str)


def numbers_of_pieces(base: Vocabulary, words: Sequence[str]) -> dict[str, int]:
    """The number of tokens of each word in a text; 1 if a token is spelled so.

    Inside words a token of that spelling may be a piece of others, so it cannot be added.
    """
    known, spaced = base.tokenizer.get_vocab(with_added_tokens=True), [f" {word}" for word in words]
    encoded = base.tokenizer.encode_batch_fast(spaced, add_special_tokens=False)
    pairs = zip(words, encoded, strict=True)
    return {word: 1 if word in known else len(encoding.ids) for word, encoding in pairs}


def words_in_file(base: Vocabulary, name: str, text: str) -> tuple[list[str], int]:
    """The words of a file that the tokenizer splits, and the number of those that are tokens."""
    spell, words = speller(base.tokenizer), dict[str, None]()
    for number, line in enumerate(text.splitlines(), 1):
        if (word := spell(line.strip()).strip()) and len(word.split()) > 1:
            message = f"{name}:{number}: {shown(line)} is more than one word for the tokenizer"
            raise DataError(message, "one word a line, without spaces inside")
        if word:
            words[word] = None
    if not words:
        raise DataError(f"{name}: no words in it", "one word a line")
    pieces = numbers_of_pieces(base, [*words])
    split = [word for word in words if pieces[word] > 1]
    if not split:
        message = f"{name}: all {len(words):,} words are tokens of the vocabulary already"
        raise DataError(message, "leave vocab out: the vocabulary of init has them")
    return split, len(words) - len(split)


def words_in_text(base: Vocabulary, texts: Iterable[str], most: int) -> list[str]:
    """The words of texts for which most tokens are saved: count x (pieces - 1), ties by word."""
    spell, counts = speller(base.tokenizer), Counter[str]()
    for text in texts:
        counts.update(word for word, _ in _WORDS.pre_tokenize_str(spell(text)))
    words = [
        word
        for word, count in counts.items()
        if count >= LEAST_COUNT and 1 < len(word) <= LONGEST_WORD and any(map(str.isalpha, word))
    ]
    saved = {word: counts[word] * (n - 1) for word, n in numbers_of_pieces(base, words).items()}
    ranked = sorted(saved, key=lambda word: (-saved[word], word))
    return [word for word in ranked[:most] if saved[word]]


def extended(base: Vocabulary, words: Sequence[str]) -> Tokenizer:
    """The tokenizer with words as tokens, in place of unused ones as far as there are any.

    A word is read as its token where no letter, digit or mark touches it. All other text is read
    as before.
    """
    keep = np.ones(base.size, dtype=np.bool_)
    keep[unused(base)[::-1][: len(words)]] = False
    written, normal = _cut(base.tokenizer, keep), speller(base.tokenizer) is not str
    # The blank before a word is in its token.
    with_blank = written["model"]["type"] not in ("WordPiece", "WordLevel")
    how = {"single_word": True, "lstrip": with_blank, "normalized": normal}
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.add_tokens([AddedToken(word, **how) for word in words])
    return tokenizer


def trim_tokenizer(base: Vocabulary, counts: NDArray[np.int64], size: int) -> Tokenizer:
    """The tokenizer of the tokens with a count, ``counts`` (v,), and of those that they need.

    Special tokens stay, bytes, and the characters of the tokens with a count, so that other words
    can be spelled. With a ``size`` the most frequent tokens, and then those of low numbers.
    """
    ids = base.tokenizer.get_vocab(with_added_tokens=True)
    keep, needs = _staying(base, counts, ids), dict[int, list[int]]()
    for first, second in json.loads(base.tokenizer.to_str())["model"].get("merges") or ():
        needs.setdefault(ids[first + second], []).extend((ids[first], ids[second]))
    if size and (least := int(keep.sum())) > size:
        raise DataError(
            f"vocab=trim(init, {size}) has no room for the {least:,} special tokens and characters "
            "of the text",
            f"trim(init, {least}) or more",
        )
    last, tokens = {*unused(base)}, [*ids.values()]
    count = int(keep[tokens].sum())
    for token in sorted(tokens, key=lambda token: (token in last, -counts[token], token)):
        if not keep[token] and (size or counts[token]):
            parts = _closure(token, keep, needs)
            if not size or count + len(parts) <= size:
                keep[parts] = True
                count += len(parts)
    return Tokenizer.from_str(json.dumps(_cut(base.tokenizer, keep)))


def staying(base: Vocabulary) -> int:
    """The number of tokens that any trimmed vocabulary has: special ones and bytes."""
    ids = base.tokenizer.get_vocab(with_added_tokens=True)
    return int(_staying(base, np.zeros(base.size, np.int64), ids).sum())


def _staying(old: Vocabulary, seen: NDArray[np.int64], ids: Mapping[str, int]) -> NDArray[np.bool_]:
    """True for special tokens (v,), bytes, and characters of the tokens with a count."""
    special = old.special.copy()
    special[[number for token, number in ids.items() if UNUSED.fullmatch(token)]] = False
    special[[ids[token] for token in old.named.values()]] = True
    used = (token for token, number in ids.items() if seen[number])
    characters = {character for token in used for character in token} | {BLANK}
    if is_byte_level(old.tokenizer):
        characters |= {*byte_signs().values()}
    single = {*characters, *(f"##{character}" for character in characters)}
    special[[n for token, n in ids.items() if token in single or BYTE.fullmatch(token)]] = True
    return special


def _closure(token: int, keep: NDArray[np.bool_], needs: Mapping[int, list[int]]) -> list[int]:
    """The token, and all that it needs and that is not kept yet."""
    needed, waiting = dict[int, None](), [token]
    while waiting:
        if not keep[part := waiting.pop()] and part not in needed:
            needed[part] = None
            waiting += needs.get(part, ())
    return [*needed]


def _cut(tokenizer: Tokenizer, keep: NDArray[np.bool_]) -> dict[str, Any]:
    """A tokenizer.json with the kept tokens alone (v,), numbered anew in order."""
    written: dict[str, Any] = json.loads(tokenizer.to_str())
    ids, model = tokenizer.get_vocab(with_added_tokens=True), written["model"]
    listed = isinstance(model["vocab"], list)
    pieces = [piece for piece, _ in model["vocab"]] if listed else model["vocab"]
    in_model = {token for token in pieces if keep[ids[token]]}
    # Added tokens that the model lacks are numbered after it, by the library too.
    stays = (token for token, number in ids.items() if keep[number])
    order = sorted(stays, key=lambda token: (token not in in_model, ids[token]))
    numbers = {token: number for number, token in enumerate(order)}
    if listed:
        unknown = pieces[model["unk_id"]] if model.get("unk_id") is not None else None
        model["vocab"] = [entry for entry in model["vocab"] if entry[0] in in_model]
        model["unk_id"] = numbers.get(unknown) if unknown is not None else None
    else:
        model["vocab"] = {token: numbers[token] for token in order if token in in_model}
    if model.get("merges"):
        model["merges"] = [[a, b] for a, b in model["merges"] if {a, b, a + b} <= in_model]
    added = (token for token in written["added_tokens"] if token["content"] in numbers)
    renumbered = ({**token, "id": numbers[token["content"]]} for token in added)
    written["added_tokens"] = sorted(renumbered, key=lambda token: token["id"])
    written["post_processor"] = _renumber(written["post_processor"], numbers)
    written["padding"] = written["truncation"] = None
    return written


def _renumber(step: Any, numbers: Mapping[str, int]) -> Any:
    """A post-processor with the new numbers of its special tokens."""
    match step:
        case {"type": "Sequence", "processors": steps}:
            return {**step, "processors": [_renumber(inner, numbers) for inner in steps]}
        case {"special_tokens": tokens}:
            anew = {
                name: {**token, "ids": [numbers[text] for text in token["tokens"]]}
                for name, token in tokens.items()
            }
            return {**step, "special_tokens": anew}
        case {"cls": [cls, _], "sep": [sep, _]}:
            return {**step, "cls": [cls, numbers[cls]], "sep": [sep, numbers[sep]]}
        case _:
            return step
