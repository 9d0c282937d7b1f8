"""Tensor functions of each objective: corruption, targets and loss."""

from bertc.objectives.corruption import corrupt, mask_key, with_guesses
from bertc.objectives.loss import Losses, Teaching
from bertc.objectives.targets import (
    Boundaries,
    Inputs,
    Lesson,
    MicroBatch,
    NextTokenTargets,
    PairTargets,
    Predictions,
    ReplacedTokens,
    TaskTargets,
    VocabTensors,
    WholeBatch,
)
from bertc.objectives.term import RowView, TermLoss
from bertc.objectives.terms import tensors_of, with_output_positions
from bertc.objectives.vocabulary import token_logits

__all__ = [
    "Boundaries",
    "Inputs",
    "Lesson",
    "Losses",
    "MicroBatch",
    "NextTokenTargets",
    "PairTargets",
    "Predictions",
    "ReplacedTokens",
    "RowView",
    "TaskTargets",
    "Teaching",
    "TermLoss",
    "VocabTensors",
    "WholeBatch",
    "corrupt",
    "mask_key",
    "tensors_of",
    "token_logits",
    "with_guesses",
    "with_output_positions",
]
