"""Masking: units, replacements, how often masks are redrawn; figures by what a position shows."""

import math
from collections.abc import Iterable
from operator import not_
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir.base import BY_KIND, Node, once
from bertc.ir.own import Own


class _Unit(Node):
    """Tokens that are masked together; ``masks_spans``: as spans, which ``sbo`` predicts."""

    masks_spans: ClassVar[bool] = False

    def most(self, share: float, seq: int) -> int:
        """Positions of a row that are predicted at most."""
        return max(1, math.ceil(share * seq))


class TokenUnit(_Unit):
    """Single tokens (BERT 3.1)."""

    kind: Literal["token"] = "token"


class AdaptiveUnit(_Unit):
    """Single tokens, those more often whose type is predicted right less often.

    A token is masked with a chance in proportion to the weight of its type; the chances of a row
    have the mean ``p``. Every ``every`` steps a weight becomes ``smooth`` times itself plus, for
    the rest, the share of wrong predictions since then (Edman and Fraser 2025). Evaluations mask
    all types alike.
    """

    kind: Literal["adaptive"] = "adaptive"
    every: Annotated[int, Field(ge=1, le=1_000_000)] = 200  # train_mask.py --mask_update_steps 200
    smooth: Annotated[float, Field(ge=0, lt=1)] = 0.2  # update_mask_weights
    positional = ("every", "smooth")

    def most(self, share: float, seq: int) -> int:
        """A number that one row in 700 exceeds, whose last tokens stay as they are."""
        return min(seq, math.ceil(share * seq + 3 * math.sqrt(share * (1 - share) * seq)))


class WordUnit(_Unit):
    """Whole words (BERT create_pretraining_data.py --do_whole_word_mask)."""

    kind: Literal["word"] = "word"


class NgramUnit(_Unit):
    """Runs of 1 to ``max`` whole words, P(n) proportional to 1/n (ALBERT 4.1)."""

    kind: Literal["ngram"] = "ngram"
    max: Annotated[int, Field(ge=1, le=16)] = 3  # ALBERT create_pretraining_data.py --ngram
    positional = ("max",)


class SpanUnit(_Unit):
    """Runs of words with truncated geometric lengths (SpanBERT 3.1), or 1 to ``max`` alike.

    ``fixed``: all of ``max`` (DNABERT, whose neighbouring k-mers overlap).
    """

    kind: Literal["span"] = "span"
    p: Annotated[float, Field(gt=0, lt=1)] = 0.2  # SpanBERT --geometric-p 0.2 (README)
    max: Annotated[int, Field(ge=1, le=64)] = 10  # SpanBERT --span-upper
    # GPT-BERT: uniform, 1 to 3
    lengths: Annotated[
        Literal["geometric", "uniform", "fixed"], Field(exclude_if="geometric".__eq__)
    ] = "geometric"
    positional = ("p", "max")
    masks_spans = True


class OwnUnit(_Unit, Own):
    """Neighbouring tokens with one number of a class of the user's own; with -1 never masked."""

    kind: Literal["own"] = "own"


Unit = Annotated[TokenUnit | WordUnit | NgramUnit | SpanUnit | AdaptiveUnit | OwnUnit, BY_KIND]


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
            help = "write three percentages, as in objective=mlm(replace=80/10/10)"
            raise ValueError(f"the three parts add up to {total:g}, not 100", help)
        return self


class DynamicMasking(Node):
    """New masks in every epoch (RoBERTa 4.1)."""

    kind: Literal["dynamic"] = "dynamic"


class StaticMasking(Node):
    """``copies`` fixed maskings, used in turn epoch after epoch (BERT --dupe_factor)."""

    kind: Literal["static"] = "static"
    copies: Annotated[int, Field(ge=1, le=10_000)] = 10
    positional = ("copies",)


Masking = Annotated[DynamicMasking | StaticMasking, BY_KIND]


Count = Literal["nearest", "up", "stochastic"]
"""Ways to round the number of tokens of a row that are predicted."""


class Masks(Node):
    """The choice of tokens that a term hides, and what hides them.

    At most ``predictions(seq)`` positions of a row are predicted, so shapes are static.

    Evaluations mask ``eval_p``, 0: the last share; ModernBERT's mask 15% while it trains on 30%.
    With ``p_end`` the share falls in every step, from ``p`` to that at the end of the run, or of
    the stage that has the objective (GPT-BERT: 30% to 15%). Shapes are those of the first step.
    ``translations``: it masks translation pairs, and other terms do not read those rows.
    """

    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # BERT --masked_lm_prob
    eval_p: Annotated[float, Field(ge=0, le=1, exclude_if=not_)] = 0.0
    p_end: Annotated[float, Field(ge=0, le=1, exclude_if=not_)] = 0.0
    unit: Unit = TokenUnit()
    replace: Replace = Replace()
    replace_per: Literal["token", "span"] = "token"  # BERT: a draw a token; SpanBERT: a draw a span
    random_from: Literal["vocabulary", "ordinary", "corpus"] = "vocabulary"
    masking: Masking = DynamicMasking()
    count: Count = "nearest"  # BERT: int(round(len * p))
    mask_specials: bool = False  # true: [CLS] and [SEP] are candidates and count (fairseq RoBERTa)
    distinct: bool = True  # false: a token may be drawn again and counts again (ELECTRA)
    max_predictions: Annotated[int, Field(ge=0, le=100_000)] = 0  # 0: as many as p gives
    # Tokens are drawn with weight (frequency in the text)^-rare (XLM --sample_alpha,
    # DistilBERT --mlm_smoothing; both released with 0 and 0.7).
    rare: Annotated[float, Field(ge=0, le=2)] = 0.0

    translations: ClassVar[bool] = False

    @model_validator(mode="after")
    def _draws_tokens(self) -> Self:
        if self.p_end >= self.p:
            raise ValueError(
                f"p_end = {self.p_end:g} is no less than p = {self.p:g}, where it begins to fall",
                f"p_end={self.p / 2:g}",
            )
        if self.rare and not isinstance(self.unit, TokenUnit):
            raise ValueError(f"rare needs unit=token, not unit={self.unit.kind}")
        if not self.distinct and not isinstance(self.unit, TokenUnit):
            raise ValueError(f"distinct=false needs unit=token, not unit={self.unit.kind}")
        if self.count != "nearest" and isinstance(self.unit, AdaptiveUnit):
            raise ValueError(f"count={self.count} needs other units: adaptive draws each token")
        if not self.distinct and self.rare:
            raise ValueError("distinct=false and rare exclude each other")
        return self

    @property
    def held_out(self) -> Self:
        """Itself with the ``p`` of evaluations."""
        p = self.eval_p or self.p_end or self.p
        alike = TokenUnit() if isinstance(self.unit, AdaptiveUnit) else self.unit
        return self.model_copy(update={"p": p, "p_end": 0.0, "eval_p": 0.0, "unit": alike})

    def share_at(self, over: float) -> float:
        """The share of tokens to mask when ``over`` of the steps are; 0: none."""
        return self.p + (self.p_end - self.p) * over if self.p_end else self.p

    @once
    def restrict(self, begin: float, end: float) -> Self:
        """Itself in steps of which shares from ``begin`` to ``end`` are over."""
        if not self.p_end:
            return self
        shares = {"p": self.share_at(begin), "p_end": self.share_at(end)}
        return self.model_copy(update={**shares, "eval_p": self.eval_p or self.p_end})

    def predictions(self, seq: int) -> int:
        """Predictions per row, the K of the (batch, K) tensors."""
        most = self.unit.most(self.p, seq)
        return min(most, self.max_predictions) if self.max_predictions else most


KINDS = ("masked", "replaced", "visible")
"""Kinds of predicted positions."""


def kind_names(name: str) -> tuple[str, ...]:
    """The names of a figure for positions of each kind."""
    return tuple(f"{name}_{kind}" for kind in KINDS)


def of_all_positions(names: Iterable[str]) -> list[str]:
    """The figures without those of one kind of position."""
    known = dict.fromkeys(names)
    parts = {part for name in known for part in kind_names(name)}
    return [name for name in known if name not in parts]


def shown_figures(names: Iterable[str]) -> list[str]:
    """The figures that are shown, and by which runs are ranked: of masked positions if there."""
    known = dict.fromkeys(names)
    pairs = ((name, kind_names(name)[0]) for name in of_all_positions(known))
    return [masked if masked in known else name for name, masked in pairs]
