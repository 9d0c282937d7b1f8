"""The closed union of bodies: the main part of a network, below its heads."""

from bertc.ir.network.encoder import Encoder

Body = Encoder
"""The closed union of bodies; the transformer is its only member."""
