"""Corruption and loss of each objective, as tensor functions."""

from bertc.objectives.columns import (
    Boundaries,
    Columns,
    Inputs,
    NextTokens,
    Predictions,
    Questions,
    Replacements,
    Tables,
    TermLoss,
)
from bertc.objectives.corruption import corrupt, mask_key
from bertc.objectives.heads import mlm_logits, pair_logits, rtd_logits, sbo_logits
from bertc.objectives.loss import losses

__all__ = [
    "Boundaries",
    "Columns",
    "Inputs",
    "NextTokens",
    "Predictions",
    "Questions",
    "Replacements",
    "Tables",
    "TermLoss",
    "corrupt",
    "losses",
    "mask_key",
    "mlm_logits",
    "pair_logits",
    "rtd_logits",
    "sbo_logits",
]
