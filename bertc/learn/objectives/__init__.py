"""Tensor functions of each objective: corruption, targets and loss."""

from bertc.learn.objectives.corruption import corrupt, mask_key, with_guesses
from bertc.learn.objectives.targets import (
    Inputs,
    MicroBatch,
    NextTokenTargets,
    Predictions,
    TaskTargets,
    VocabTensors,
    WholeBatch,
)
from bertc.learn.objectives.term import RowView
from bertc.learn.objectives.terms import Losses, Teaching, tensors_of
from bertc.learn.objectives.vocabulary import token_logits

__all__ = [
    "Inputs", "Losses", "MicroBatch", "NextTokenTargets", "Predictions", "RowView", "TaskTargets",
    "Teaching", "VocabTensors", "WholeBatch", "corrupt", "mask_key", "tensors_of", "token_logits",
    "with_guesses",
]  # fmt: skip
