"""Vocabularies that no text decides: letters, k-mers, the lines of a file."""

import math
import re
from collections import Counter
from itertools import chain, islice, product
from typing import assert_never

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from bertc.base.diagnostics import DataError, as_data_error
from bertc.base.diagnostics.errors import UnknownTokensError
from bertc.base.storage.paths import user_path
from bertc.base.storage.plain_file import name_few, read_text, shown
from bertc.ir.vocabulary import SPECIALS_BY_MODEL, Characters, Fixed, Kmers, Listed, TokenizerFile
from bertc.text.sources.cells import ITEM_END
from bertc.text.sources.source import TextSource
from bertc.text.tokenizers.by_transformers import LARGEST_FILE_BYTES
from bertc.text.vocab.vocabulary import ROLES, Vocabulary, from_tokenizer, load_vocabulary

OTHER = "\ufffd"
"""Stands for text that no token spells."""
BETWEEN_BLANKS = r"\S+"
MOST_LOOKED_AT, LOOKED_AT = 100, 10_000
"""Texts in which unknown tokens are looked for, and characters of each, to name them."""


def known_vocabulary(node: TokenizerFile | Fixed, rows: int = 0) -> Vocabulary:
    """The vocabulary of a node that no text decides, for a table of ``rows``; 0: unknown."""
    return (
        load_vocabulary(node, rows) if isinstance(node, TokenizerFile) else fixed_vocabulary(node)
    )


def fixed_vocabulary(node: Fixed) -> Vocabulary:
    """The vocabulary of a node, the same on every machine; a regular expression finds tokens."""
    match node:
        case Listed():
            lines, pattern = _lines(node), BETWEEN_BLANKS
            missing = [names[0] for names in ROLES.values() if not {*names} & {*lines}]
            tokens = [*missing, *lines]
            special = [token for token in chain(*ROLES.values()) if token in {*tokens}]
            if node.pattern:
                message = f"pattern={shown(node.pattern)} is no regular expression"
                with as_data_error(message, "one of Oniguruma, as the tokenizers library reads"):
                    Regex(node.pattern)
                pattern = rf"(?:{node.pattern})|\S"
            # Training reads what spells a special token as text.
            steps = [("|".join(map(re.escape, special)), OTHER)]
        case Characters(alphabet=alphabet) | Kmers(alphabet=alphabet):
            before, behind = SPECIALS_BY_MODEL[node.specials]
            words = map("".join, product(alphabet, repeat=node.length))
            tokens, special = [*before, *words, *node.singles, *behind], [*before, *behind]
            pattern = rf"[{re.escape(alphabet)}]{{{node.length}}}|\S"
            others = [(c.swapcase(), c) for c in alphabet if not node.case]
            steps = [(re.escape(o), c) for o, c in others if o not in alphabet and len(o) == 1]
            if node.length > 1 and not node.singles:
                pattern, steps = BETWEEN_BLANKS, [*steps, *_overlapping(node.length, alphabet)]
        case unreachable:
            assert_never(unreachable)
    ids = {token: number for number, token in enumerate(tokens)}
    unknown = next(token for token in ROLES["unk"] if token in ids)
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(text), instead) for text, instead in steps]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    if pattern != BETWEEN_BLANKS:
        tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(special)
    return from_tokenizer(tokenizer, node.kind, {"bos": "<bos>", "eos": "<eos>"})


def _overlapping(k: int, alphabet: str) -> list[tuple[str, str]]:
    """Steps that write a run of letters as its k-mers with blanks between, ACGT as ACG CGT.

    No step can copy a letter, so there is one for each letter and place in a k-mer: it puts the
    letter behind the words of ``n`` letters before one that ends with it.
    """
    return [
        (r"\s+", "\n"),
        (rf"(?<!\S)\S{{1,{k - 1}}}(?!\S)|[^\n{re.escape(alphabet)}]", OTHER),
        (r"(?=\S)", " "),
        *(
            (rf"(?<= \S{{{n}}})(?= \S{{{n - 1}}}{re.escape(letter)})", letter)
            for n in range(1, k)
            for letter in alphabet + OTHER
        ),
        (rf"(?<= \S{{{k}}})(?: \S{{1,{k - 1}}}(?!\S))+", ""),
    ]


def _lines(node: Listed) -> list[str]:
    """The tokens of a file."""
    numbers = dict[str, int]()
    text = read_text(user_path(node.path), LARGEST_FILE_BYTES)
    for number, line in enumerate(text.rstrip().split("\n"), 1):
        token, where = line.strip(), f"{node.path}:{number}"
        if not token:
            raise DataError(f"{where}: an empty line", "one token a line")
        if token in numbers:
            message = f"{where}: {shown(token)} is in line {numbers[token]:,} too"
            raise DataError(message, "each token once")
        if not node.pattern and len(token.split()) > 1:
            message = f"{where}: {shown(token)} is never read: white space separates tokens"
            raise DataError(message, "one token a line; pattern= finds tokens in another way")
        numbers[token] = number
    return [*numbers]


def unknown_remark(
    node: Fixed, source: TextSource, vocabulary: Vocabulary, counts: NDArray[np.int64]
) -> str:
    """A remark on the unknown tokens of a text with these counts (v,); a large share is refused."""
    share = float(counts[vocabulary.unk] / max(1, counts.sum()))
    if not share:
        return ""
    if isinstance(node, Kmers):  # letters are named
        vocabulary = fixed_vocabulary(Characters(alphabet=node.alphabet, case=node.case))
    unread = Counter[str]()
    for piece in islice(source.read(), MOST_LOOKED_AT):
        text = piece.text[:LOOKED_AT].replace(ITEM_END, " ")
        encoding = vocabulary.tokenizer.encode(text, add_special_tokens=False)
        parts = zip(encoding.ids, encoding.offsets, strict=True)
        unread.update(text[start:end] for token, (start, end) in parts if token == vocabulary.unk)
    most = f", most often {name_few([part for part, _ in unread.most_common()])}" if unread else ""
    message = f"{share:.2%} of the tokens of {source.name} are unknown{most}"
    if share > node.unknown:
        case = "case=false reads letters of either case"
        other = "add them to its file" if isinstance(node, Listed) else case
        allowed = f"unknown={math.ceil(100 * share)}% reads it all the same"
        raise UnknownTokensError(message, f"{other}; {allowed}")
    return message
