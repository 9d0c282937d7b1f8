"""Modules for the kinds of the IR."""

from bertc.model.inputs import EncoderInputs, Memory, PermutationMask, gather_positions
from bertc.model.model import Model, build
from bertc.model.native import dropout
from bertc.model.positions import restarting_positions

__all__ = [
    "EncoderInputs", "Memory", "Model", "PermutationMask", "build", "dropout", "gather_positions",
    "restarting_positions",
]  # fmt: skip
