"""Tensor functions of each objective: corruption, targets and loss."""

from bertc.learn.objectives.corruption import corrupt, mask_key, with_guesses
from bertc.learn.objectives.targets import (
    Boundaries,
    Inputs,
    MicroBatch,
    NextTokenTargets,
    PairTargets,
    Predictions,
    ReplacedTokens,
    TaskTargets,
    Taught,
    VocabTensors,
    WholeBatch,
)
from bertc.learn.objectives.term import RowView, TermLoss
from bertc.learn.objectives.terms import Losses, Teaching, tensors_of, with_output_positions
from bertc.learn.objectives.vocabulary import token_logits

__all__ = [
    "Boundaries", "Inputs", "Taught", "Losses", "MicroBatch", "NextTokenTargets", "PairTargets",
    "Predictions", "ReplacedTokens", "RowView", "TaskTargets", "Teaching", "TermLoss",
    "VocabTensors", "WholeBatch", "corrupt", "mask_key", "tensors_of", "token_logits",
    "with_guesses", "with_output_positions",
]  # fmt: skip
