"""Masked language modelling of text (``mlm``) and of translations (``tlm``)."""

import math
from itertools import pairwise
from operator import not_
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bertc.ir.terms.masking import DynamicMasking, Masking, Replace, TokenUnit, Unit
from bertc.ir.terms.node import LONG, LanguageModel, RowShape

SHARES = 4
"""Shares of masked tokens that a stage goes through from ``p`` to ``p_end``."""


class Masked(LanguageModel):
    """Mask tokens of the input and predict them.

    At most ``predictions(seq)`` positions of a row are predicted, so shapes are static.

    With ``p_end`` the share of masked tokens goes from ``p`` to that over a stage, in ``p_levels``
    equal steps (Ankner et al. 2023, where a linear fall from 30% to 15% beats both). Evaluations
    mask ``eval_p``, 0: ``p_end``, or else ``p``; ModernBERT's mask 15% while it trains on 30%.
    """

    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # BERT --masked_lm_prob
    p_end: Annotated[float, Field(ge=0, le=1, exclude_if=not_)] = 0.0  # 0: p throughout
    p_levels: Annotated[int, Field(ge=2, le=100, exclude_if=SHARES.__eq__)] = SHARES
    eval_p: Annotated[float, Field(ge=0, le=1, exclude_if=not_)] = 0.0
    unit: Unit = TokenUnit()
    replace: Replace = Replace()
    replace_per: Literal["token", "span"] = "token"  # BERT: a draw a token; SpanBERT: a draw a span
    random_from: Literal["vocabulary", "ordinary", "corpus"] = "vocabulary"
    masking: Masking = DynamicMasking()
    count: Literal["nearest", "up", "stochastic"] = "nearest"  # BERT: int(round(len * p))
    mask_specials: bool = False  # true: [CLS] and [SEP] are candidates and count (fairseq RoBERTa)
    distinct: bool = True  # false: a token may be drawn again and counts again (ELECTRA)
    max_predictions: Annotated[int, Field(ge=0, le=100_000)] = 0  # 0: as many as p gives
    # Tokens are drawn with weight (frequency in the text)^-rare (XLM --sample_alpha,
    # DistilBERT --mlm_smoothing; both released with 0 and 0.7).
    rare: Annotated[float, Field(ge=0, le=2)] = 0.0
    positional = ("p", "unit")
    predicts_masked = True
    output_rank = 0
    fills = "masks"

    @model_validator(mode="after")
    def _has_levels(self) -> Self:
        if self.p_levels != SHARES and not self.p_end:
            raise ValueError("p_levels needs p_end", "p_end=15%, the share at the end of the stage")
        return self

    @model_validator(mode="after")
    def _rare_tokens(self) -> Self:
        if self.rare and not isinstance(self.unit, TokenUnit):
            raise ValueError(f"rare needs unit=token, not unit={self.unit.kind}")
        return self

    @model_validator(mode="after")
    def _draws_tokens(self) -> Self:
        if not self.distinct and not isinstance(self.unit, TokenUnit):
            raise ValueError(f"distinct=false needs unit=token, not unit={self.unit.kind}")
        if not self.distinct and self.rare:
            raise ValueError("distinct=false and rare exclude each other")
        return self

    @property
    def head_name(self) -> str:
        """``mlm``, for all terms that mask tokens."""
        return "mlm"

    @property
    def decodes(self) -> bool:
        """True."""
        return True

    def pieces(self, steps: int) -> tuple[tuple[Self, int], ...]:
        """One with ``p`` for each level that has steps."""
        if not self.p_end:
            return ((self, steps),)
        ends = [-(-n * steps // self.p_levels) for n in range(self.p_levels + 1)]
        rise = (self.p_end - self.p) / (self.p_levels - 1)
        levels = (round(self.p + n * rise, 6) for n in range(self.p_levels))
        return tuple(
            (self._at(p, eval_p=self.eval_p or self.p_end), end - begin)
            for p, (begin, end) in zip(levels, pairwise(ends), strict=True)
            if end > begin
        )

    @property
    def held_out(self) -> Self:
        """Itself with the ``p`` of evaluations."""
        p = self.eval_p or self.p_end
        return self._at(p, eval_p=0.0) if p else self

    def _at(self, p: float, eval_p: float) -> Self:
        """The same with this ``p`` throughout."""
        return self.model_copy(update={"p": p, "p_end": 0.0, "p_levels": SHARES, "eval_p": eval_p})

    def predictions(self, seq: int) -> int:
        """Predictions per row, the K of the (batch, K) tensors."""
        wanted = max(1, math.ceil(self.p * seq))
        return min(wanted, self.max_predictions) if self.max_predictions else wanted

    def target_bytes(self, rows: RowShape) -> int:
        """The original of each prediction."""
        return LONG * rows.predictions


class Mlm(Masked):
    """Predict masked tokens (BERT 3.1) in monolingual rows."""

    kind: Literal["mlm"] = "mlm"
    shorthand = "unit"

    @property
    def masks(self) -> "Mlm":
        """The term itself."""
        return self


class Tlm(Masked):
    """Predict masked tokens of a sentence and its translation (XLM 3.3), with mlm's head.

    Rows are ``pairs``. Positions restart at 0 in the translation.
    """

    kind: Literal["tlm"] = "tlm"
    translations = True
    system = "xlm"

    @property
    def masks(self) -> "Tlm":
        """The term itself."""
        return self


MaskedTerm = Mlm | Tlm
"""The closed union of terms that hide tokens."""
