"""Modules for the kinds of the IR."""

from bertc.model.body import BodyModule, Outputs, Projected, profile_as
from bertc.model.heads import AdaptiveTokenHead, TokenHead, WidthMaps
from bertc.model.inputs import EncoderInputs, Memory, PermutationMask, gather_positions
from bertc.model.model import Frozen, Model, build
from bertc.model.native.kernels import dropout
from bertc.model.norm import Norm
from bertc.model.positions import restarting_positions
from bertc.model.weights import Embedding, Linear
