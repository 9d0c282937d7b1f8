"""Networks made from others, as a map of weights: growing."""

from bertc.compress.fit import fit, refusal, told_otherwise
from bertc.compress.grow import WeightMap, weight_map

__all__ = ["WeightMap", "fit", "refusal", "told_otherwise", "weight_map"]
