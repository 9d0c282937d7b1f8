"""Tensor functions of each objective: corruption, targets and loss."""

from bertc.learn.objectives.answers import TaskTensors
from bertc.learn.objectives.corruption import corrupt, mask_key, with_guesses
from bertc.learn.objectives.targets import Inputs, MicroBatch, TaskTargets, VocabTensors
from bertc.learn.objectives.term import HeadInput, RowView, token_logits
from bertc.learn.objectives.terms import Losses, Teaching, joined, states_of, tensors_of
