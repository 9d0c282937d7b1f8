"""Kinds of vocabularies: learned from the corpus, existing, or fixed by their letters or a list."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bertc.ir.base import BY_KIND, Node, Off, Probability

LARGEST_SIZE = 10_000_000
Size = Annotated[int, Field(ge=16, le=LARGEST_SIZE)]
"""Number of tokens of a vocabulary."""
Multiple = Annotated[int, Field(ge=1, le=4096, exclude_if=(1).__eq__)]
"""The token table has rows up to a multiple of this; those without a token are never targets."""
Smoothing = Annotated[float, Field(ge=0, le=1)]
"""The exponent S of q ~ p^S: 1 keeps the shares of languages, 0 equalises them."""


class WordPiece(Node):
    """WordPiece with BERT's normaliser and pre-tokeniser, trained on the corpus.

    ``alphabet`` is the number of single characters with tokens, the most frequent ones; 0: 1,000
    like bert-base-uncased, or more if those cover less than 1,999 in 2,000 of the text.
    """

    kind: Literal["wordpiece"] = "wordpiece"
    size: Size = 30_522  # bert-base-uncased vocab.txt
    lower: bool = True
    smoothing: Smoothing = 1.0
    alphabet: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    multiple: Multiple = 1
    positional = ("size", "lower")
    bare_number = ("size",)

    @model_validator(mode="after")
    def _alphabet_fits(self) -> "WordPiece":
        # Each has two tokens, at the start of a word and inside; five tokens are special.
        if self.alphabet > (room := (self.size - 5) // 2):
            raise ValueError(f"{self.size} tokens have room for an alphabet of {room} characters")
        return self


class ByteBpe(Node):
    """Byte-level BPE, cased, trained on the corpus (RoBERTa 4.4).

    With ``digits`` every digit is a token, with the space before it (GPT-BERT).
    """

    kind: Literal["bpe"] = "bpe"
    size: Size = 50_265  # roberta.base dict.txt and its special tokens
    smoothing: Smoothing = 1.0
    digits: Off = False
    multiple: Multiple = 1
    positional = ("size",)


class Unigram(Node):
    """SentencePiece-style unigram, trained on the corpus (ALBERT 4.1).

    ``specials``: the special tokens of ALBERT, ``<pad>`` first, or those of RoBERTa's dictionary,
    ``<s> <pad> </s> <unk>`` first and ``<mask>`` last (XLM-R, CamemBERT).
    """

    kind: Literal["unigram"] = "unigram"
    size: Size = 30_000  # ALBERT README, spm --vocab_size
    lower: bool = True
    smoothing: Smoothing = 1.0
    accents: bool = True  # false: letters lose them (ALBERT, XLNet)
    specials: Annotated[Literal["albert", "roberta"], Field(exclude_if="albert".__eq__)] = "albert"
    multiple: Multiple = 1
    positional = ("size", "lower")


class Words(Node):
    """The most frequent words of the corpus, split at white space.

    All other words are one token (Transformer-XL, vocabulary.py).
    """

    kind: Literal["words"] = "words"
    size: Size = 267_735  # WikiText-103
    smoothing: Smoothing = 1.0
    multiple: Multiple = 1
    positional = ("size",)


class Bytes(Node):
    """The most frequent bytes of the corpus; with size 261 all of them and five special tokens."""

    kind: Literal["bytes"] = "bytes"
    size: Annotated[int, Field(ge=16, le=261)] = 261
    smoothing: Smoothing = 1.0
    multiple: Multiple = 1
    positional = ("size",)


class TokenizerFile(Node):
    """An existing vocabulary: a folder of a tokenizer's files, or one of them.

    The files are ``tokenizer.json``, ``vocab.txt``, a SentencePiece model, or ``vocab.json`` with
    ``merges.txt``. ``lower=false`` keeps capitals if the files do not say. ``size`` 0 means the
    number of tokens in the file, which a pass fills in.
    """

    kind: Literal["tokenizer"] = "tokenizer"
    path: Annotated[str, Field(min_length=1)]
    lower: bool = True
    size: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    multiple: Multiple = 1
    positional = ("path", "lower")
    bare_string = ("path",)


OfInit = Literal["init"] | Annotated[str, Field(min_length=1)]
"""A tokenizer's files; ``init`` stands for that of the network there, which a pass fills in."""


class Extended(Node):
    """The vocabulary of init, and whole words that it splits.

    ``words`` is their number, the words of ``data`` for which most tokens are saved, or a file with
    one a line. They take the place of unused tokens first, such as ``[unused7]``. ``size`` is the
    resulting number of rows, which a pass fills in.
    """

    kind: Literal["extend"] = "extend"
    path: OfInit
    words: Annotated[int, Field(ge=1, le=1_000_000)] | Annotated[str, Field(min_length=1)]
    smoothing: Smoothing = 1.0
    size: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    multiple: Multiple = 1
    positional = ("path", "words")
    looked_up = ("size",)


class Trimmed(Node):
    """Tokens of the vocabulary of init: those that ``data`` needs, special ones and characters.

    With a number of ``tokens`` the most frequent ones, filled up in the order of their numbers.
    Without it the text decides: until it is read, ``size`` is an upper bound.
    """

    kind: Literal["trim"] = "trim"
    path: OfInit
    tokens: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    size: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    multiple: Multiple = 1
    positional = ("path", "tokens")
    looked_up = ("size",)


Specials = Literal["bert", "esm", "esmc", "nt"]
_ESM = ("<cls>", "<pad>", "<eos>", "<unk>")
SPECIALS_BY_MODEL: Mapping[Specials, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bert": (("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), ()),
    "esm": (_ESM, ("<null_1>", "<mask>")),
    "esmc": (_ESM, ("<mask>",)),
    "nt": (("<unk>", "<pad>", "<mask>", "<cls>"), ("<eos>", "<bos>")),
}
"""Special tokens before and after others: BERT's, ESM-2's, ESMC's, Nucleotide Transformer v2's."""
MASKS = ("[MASK]", "<mask>")


class OfAlphabet(Node):
    """Words of letters, and single ones; ``case=false`` reads letters of the other case as these.

    A text is refused if more than ``unknown`` of its tokens are.
    """

    alphabet: Annotated[str, Field(min_length=1)]
    case: bool = True
    specials: Specials = "bert"
    unknown: Probability = 0.01
    multiple: Multiple = 1

    @property
    def length(self) -> int:
        """The number of letters of a word."""
        return 1

    @property
    def singles(self) -> tuple[str, ...]:
        """Letters that are tokens beside the words."""
        return ()

    @property
    def size(self) -> int:
        words: int = len(self.alphabet) ** self.length
        return words + len(self.singles) + sum(map(len, SPECIALS_BY_MODEL[self.specials]))

    @property
    def mask(self) -> int:
        """The id of the mask."""
        before, behind = SPECIALS_BY_MODEL[self.specials]
        numbers = dict(zip(behind, range(self.size - len(behind), self.size), strict=True))
        numbers |= {token: number for number, token in enumerate(before)}
        return next(number for token, number in numbers.items() if token in MASKS)

    @model_validator(mode="after")
    def _letters_make_a_vocabulary(self) -> Self:
        if twice := next((c for c in self.alphabet if self.alphabet.count(c) > 1), ""):
            once = "".join(dict.fromkeys(self.alphabet))
            raise ValueError(f"the alphabet has {twice!r} twice", f'"{once}"')
        if self.size > LARGEST_SIZE:
            words = f"{len(self.alphabet)} letters make {len(self.alphabet) ** self.length:,} words"
            raise ValueError(f"{words} of {self.length}", f"{LARGEST_SIZE:,} tokens are the most")
        return self


class Characters(OfAlphabet):
    """The letters of an alphabet; any other character but white space is an unknown token."""

    kind: Literal["characters"] = "characters"
    positional = ("alphabet",)


class Kmers(OfAlphabet):
    """All words of ``k`` letters of an alphabet, which overlap in text (DNABERT).

    With ``step=k`` they do not, and single letters and N stand for the rest of a text (Nucleotide
    Transformer).
    """

    kind: Literal["kmers"] = "kmers"
    k: Annotated[int, Field(ge=2, le=24)]
    step: int = 1
    positional = ("k", "alphabet")

    @property
    def length(self) -> int:
        return self.k

    @property
    def singles(self) -> tuple[str, ...]:
        return () if self.step == 1 else tuple(dict.fromkeys(f"{self.alphabet}N"))

    @model_validator(mode="after")
    def _steps(self) -> Self:
        if self.step not in (1, self.k):
            raise ValueError(f"no steps of {self.step} letters", f"step=1 or step={self.k}")
        return self


class Listed(Node):
    """The tokens of a file, a line each in their order, after special ones that it lacks.

    White space separates them in text, or ``pattern`` finds them, a regular expression. A pass
    fills in their ``size``; ``unknown`` is as for letters.
    """

    kind: Literal["listed"] = "listed"
    path: Annotated[str, Field(min_length=1)]
    pattern: str = ""
    unknown: Probability = 0.01
    size: Annotated[int, Field(ge=0, le=LARGEST_SIZE)] = 0
    multiple: Multiple = 1
    positional = ("path", "pattern")
    looked_up = ("size",)


OfText = WordPiece | ByteBpe | Unigram | Words | Bytes
"""Vocabularies that the corpus decides."""
Fixed = Characters | Kmers | Listed
"""Vocabularies that no text decides."""
Vocabulary = Annotated[OfText | Fixed | TokenizerFile | Extended | Trimmed, BY_KIND]


def table_rows(vocabulary: Vocabulary) -> int:
    """Rows of the token table: a row for each token, and the rest up to the multiple."""
    return -(-vocabulary.size // vocabulary.multiple) * vocabulary.multiple
