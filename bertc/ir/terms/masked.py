"""Masked language modelling of text (``mlm``) and of translations (``tlm``)."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bertc.ir.terms.masking import DynamicMasking, Masking, Replace, TokenUnit, Unit
from bertc.ir.terms.node import LONG, LanguageModel, RowShape


class Masked(LanguageModel):
    """Mask tokens of the input and predict them.

    At most ``predictions(seq)`` positions of a row are predicted, so shapes are static.
    """

    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # BERT --masked_lm_prob
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
