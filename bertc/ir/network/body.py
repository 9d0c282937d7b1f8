"""The closed union of bodies: what a network computes its states with."""

from bertc.ir.network.encoder import Encoder

Body = Encoder
"""The transformer is its one member."""
