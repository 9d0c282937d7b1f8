"""One network made from another: growing. What comes of it is a program again."""

from bertc.compress.grow import WeightMap, weight_map

__all__ = ["WeightMap", "weight_map"]
