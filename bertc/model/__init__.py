"""Modules for the kinds of the IR."""

from bertc.nn.dropout import dropout
from bertc.nn.inputs import EncoderInputs, Memory, PermutationMask, gather_positions
from bertc.nn.model import Model, build
from bertc.nn.positions import restarting_positions

__all__ = [
    "EncoderInputs",
    "Memory",
    "Model",
    "PermutationMask",
    "build",
    "dropout",
    "gather_positions",
    "restarting_positions",
]
