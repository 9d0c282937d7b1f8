"""Tensor functions of each objective: corruption, targets and loss."""

from bertc.learn.objectives.corruption import corrupt, mask_key, with_guesses
from bertc.learn.objectives.targets import Inputs, MicroBatch, TaskTargets, VocabTensors
from bertc.learn.objectives.term import RowView, token_logits
from bertc.learn.objectives.terms import Losses, Teaching, tensors_of

__all__ = [
    "Inputs", "Losses", "MicroBatch", "RowView", "TaskTargets", "Teaching", "VocabTensors",
    "corrupt", "mask_key", "tensors_of", "token_logits", "with_guesses",
]  # fmt: skip
