"""One network made from another: growing. What comes of it is a program again."""

from bertc.compress.fit import fit
from bertc.compress.grow import WeightMap, weight_map

__all__ = ["WeightMap", "fit", "weight_map"]
