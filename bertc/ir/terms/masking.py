"""Masking: units, replacements, and how often masks are redrawn."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from bertc.ir.base import Node


class _Unit(Node):
    """Tokens that are masked together; ``masks_spans``: as spans, which ``sbo`` predicts."""

    masks_spans: ClassVar[bool] = False


class TokenUnit(_Unit):
    """Single tokens (BERT 3.1)."""

    kind: Literal["token"] = "token"


class WordUnit(_Unit):
    """Whole words (BERT create_pretraining_data.py --do_whole_word_mask)."""

    kind: Literal["word"] = "word"


class NgramUnit(_Unit):
    """Runs of 1 to ``max`` whole words, P(n) proportional to 1/n (ALBERT 4.1)."""

    kind: Literal["ngram"] = "ngram"
    max: Annotated[int, Field(ge=1, le=16)] = 3  # ALBERT create_pretraining_data.py --ngram
    positional = ("max",)


class SpanUnit(_Unit):
    """Runs of words with truncated geometric lengths (SpanBERT 3.1)."""

    kind: Literal["span"] = "span"
    p: Annotated[float, Field(gt=0, lt=1)] = 0.2  # SpanBERT --geometric-p 0.2 (README)
    max: Annotated[int, Field(ge=1, le=64)] = 10  # SpanBERT --span-upper
    positional = ("p", "max")
    masks_spans = True


Unit = Annotated[TokenUnit | WordUnit | NgramUnit | SpanUnit, Field(discriminator="kind")]


class Replace(Node):
    """Input at the predicted positions in percent: masked, random, kept; written ``80/10/10``."""

    mask: Annotated[float, Field(ge=0, le=100)] = 80
    random: Annotated[float, Field(ge=0, le=100)] = 10
    keep: Annotated[float, Field(ge=0, le=100)] = 10
    positional = ("mask", "random", "keep")

    @model_validator(mode="after")
    def _adds_up(self) -> "Replace":
        total = self.mask + self.random + self.keep
        if abs(total - 100) > 1e-6:
            raise ValueError(
                f"the three parts add up to {total:g}, not 100",
                "write three percentages, as in objective=mlm(replace=80/10/10)",
            )
        return self


class DynamicMasking(Node):
    """New masks in every epoch (RoBERTa 4.1)."""

    kind: Literal["dynamic"] = "dynamic"


class StaticMasking(Node):
    """``copies`` fixed maskings, used in turn epoch after epoch (BERT --dupe_factor)."""

    kind: Literal["static"] = "static"
    copies: Annotated[int, Field(ge=1, le=10_000)] = 10
    positional = ("copies",)


Masking = Annotated[DynamicMasking | StaticMasking, Field(discriminator="kind")]
