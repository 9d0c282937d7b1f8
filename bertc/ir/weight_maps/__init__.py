"""Networks made from others, as a map of weights: growing, or beginning with chosen layers."""

from bertc.ir.weight_maps.fit import WeightMap, begins_as, changed_answers, fit, refusal, weight_map
