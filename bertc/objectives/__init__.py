"""Corruption and loss of each objective, as tensor functions."""

from bertc.objectives.answers import (
    ENDS,
    SpanScores,
    answer_count,
    answer_features,
    answer_loss,
    answer_scores,
    span_scores,
)
from bertc.objectives.corruption import corrupt, mask_key
from bertc.objectives.heads import mlm_logits, pair_logits, rtd_logits
from bertc.objectives.loss import losses
from bertc.objectives.targets import (
    Answers,
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

__all__ = [
    "ENDS",
    "Answers",
    "Boundaries",
    "Columns",
    "Inputs",
    "NextTokens",
    "Predictions",
    "Questions",
    "Replacements",
    "Tables",
    "SpanScores",
    "TermLoss",
    "answer_count",
    "answer_features",
    "answer_loss",
    "answer_scores",
    "corrupt",
    "losses",
    "mask_key",
    "mlm_logits",
    "pair_logits",
    "rtd_logits",
    "span_scores",
]
