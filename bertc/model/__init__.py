"""Modules for the kinds of the IR."""

from bertc.model.body import BodyModule, Outputs, Projected, profile_as
from bertc.model.heads import AdaptiveTokenHead, Detector, TokenHead, WidthMaps
from bertc.model.inputs import EncoderInputs, Memory, PermutationMask, gather_positions
from bertc.model.model import Frozen, Model, build
from bertc.model.native.kernels import dropout
from bertc.model.norm import Norm
from bertc.model.positions import restarting_positions
from bertc.model.weights import Embedding, Linear

__all__ = [
    "AdaptiveTokenHead", "BodyModule", "Detector", "Embedding", "EncoderInputs", "Frozen", "Linear",
    "Memory", "Model", "Norm", "Outputs", "PermutationMask", "Projected", "TokenHead", "WidthMaps",
    "build", "dropout", "gather_positions", "profile_as", "restarting_positions",
]  # fmt: skip
