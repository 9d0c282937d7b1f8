"""Networks made from others, as a map of weights: growing."""

from bertc.compress.fit import changed_answers, fit, refusal
from bertc.compress.grow import WeightMap, weight_map

__all__ = ["WeightMap", "fit", "refusal", "changed_answers", "weight_map"]
