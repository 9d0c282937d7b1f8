"""Kinds of vocabularies: learned from the corpus, or existing."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bertc.ir.base import Node

Size = Annotated[int, Field(ge=16, le=10_000_000)]
"""Tokens of a vocabulary."""
Smoothing = Annotated[float, Field(ge=0, le=1)]
"""The exponent S of q ~ p^S: 1 leaves the shares of languages, 0 makes them equal."""


class WordPiece(Node):
    """WordPiece with BERT's normaliser and pre-tokeniser, trained on the corpus.

    ``alphabet`` is how many single characters have tokens, the commonest first; 0: up to 1,000 as
    bert-base-uncased has, and more where so many leave out more than 1 in 2,000 of the text.
    """

    kind: Literal["wordpiece"] = "wordpiece"
    size: Size = 30_522  # bert-base-uncased vocab.txt
    lower: bool = True
    smoothing: Smoothing = 1.0
    alphabet: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    positional = ("size", "lower")
    bare_number = ("size",)

    @model_validator(mode="after")
    def _alphabet_fits(self) -> "WordPiece":
        # Each stands in it twice, at the beginning of a word and within; five tokens are special.
        if self.alphabet > (room := (self.size - 5) // 2):
            raise ValueError(f"{self.size} tokens have room for an alphabet of {room} characters")
        return self


class ByteBpe(Node):
    """Byte-level BPE, cased, trained on the corpus (RoBERTa 4.4)."""

    kind: Literal["bpe"] = "bpe"
    size: Size = 50_265  # roberta.base dict.txt and its special tokens
    smoothing: Smoothing = 1.0
    positional = ("size",)


class Unigram(Node):
    """SentencePiece-style unigram, trained on the corpus (ALBERT 4.1)."""

    kind: Literal["unigram"] = "unigram"
    size: Size = 30_000  # ALBERT README, spm --vocab_size
    lower: bool = True
    smoothing: Smoothing = 1.0
    accents: bool = True  # false: letters lose them (ALBERT, XLNet)
    positional = ("size", "lower")


class Words(Node):
    """The commonest words of the corpus, as white space parts them, the most frequent first.

    All others are one token (Transformer-XL, vocabulary.py).
    """

    kind: Literal["words"] = "words"
    size: Size = 267_735  # WikiText-103
    smoothing: Smoothing = 1.0
    positional = ("size",)


class Bytes(Node):
    """The commonest bytes of the corpus; of 261 tokens all of them and five special ones."""

    kind: Literal["bytes"] = "bytes"
    size: Annotated[int, Field(ge=16, le=261)] = 261
    smoothing: Smoothing = 1.0
    positional = ("size",)


class TokenizerFile(Node):
    """An existing vocabulary: a folder of a tokenizer's files, or one of them.

    They are ``tokenizer.json``, ``vocab.txt``, ``spiece.model`` and ``vocab.json`` with
    ``merges.txt``. ``lower=false`` keeps capitals where the files say nothing.
    ``size`` 0 means the number of tokens in the file; the dimensions pass fills it in.
    """

    kind: Literal["tokenizer"] = "tokenizer"
    path: Annotated[str, Field(min_length=1)]
    lower: bool = True
    size: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    positional = ("path", "lower")
    bare_string = ("path",)


Vocabulary = Annotated[
    WordPiece | ByteBpe | Unigram | Words | Bytes | TokenizerFile, Field(discriminator="kind")
]
