"""Pruning: heads and neurons that a stage removes from a trained network.

Heads belong to attention, neurons to feed-forward parts. Layers that share a part share its heads
or neurons, which then count once. What is removed has only weights of zero from then on: its
gradients are zero too, so it stays so, and ``bertc.ir.weight_maps`` cuts it out when the run ends.
"""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Axis, Node, Probability
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import SharedPart

Within = Literal["network", "layer"]
AXES: dict[SharedPart, Axis] = {"attention": "heads", "ffn": "ffn"}
"""The axis of weights along which the heads or neurons of a part lie."""


class NoPruning(Node):
    """Nothing is removed."""

    kind: Literal["none"] = "none"


class _Units(Node):
    """Removal of a share of all heads or neurons, those with the lowest scores.

    ``by``: |dL/dgate| of a gate of 1 that multiplies the output of one, its first-order effect on
    the loss (Michel et al. 2019, 2.2; Molchanov et al. 2017, 2.2), a mean over the first
    ``examples`` rows of the stage; the norm of its weights; or a random number. ``normalize``
    divides the scores of a layer by their norm. ``within=layer`` removes the same share of every
    layer. ``every``: so much at a time, with equally many steps of training after each; 0: all
    before the first step.
    """

    share: Annotated[Probability, Field(gt=0)]
    by: Literal["gradient", "magnitude", "random"] = "gradient"
    within: Within = "network"
    every: Probability = 0.0
    examples: Annotated[int, Field(ge=1, le=10**9)] = 512
    normalize: bool = True
    floor: Probability = 0.0  # of older run folders, without effect
    positional = ("share",)
    looked_up = ("floor",)

    part: ClassVar[SharedPart]

    @property
    def rounds(self) -> int:
        return math.ceil(round(self.share / self.every, 6)) if self.every else 1

    def share_at(self, step: int, steps: int) -> float | None:
        """The share that is gone before step ``step`` of ``steps``; None if none goes just then."""
        for number in range(self.rounds):
            if step == number * steps // self.rounds and step < steps:
                most = self.every * (number + 1)
                return min(self.share, most) if self.every else self.share
        return None


class Heads(_Units):
    """Attention heads; every layer keeps one (Michel et al. 2019)."""

    kind: Literal["heads"] = "heads"
    normalize: bool = True  # run_bertology.py: unless --dont_normalize_importance_by_layer
    part = "attention"


class Neurons(_Units):
    """Inner units of feed-forward parts; every layer keeps one."""

    kind: Literal["neurons"] = "neurons"
    within: Within = "layer"  # DynaBERT run_glue.py: layers stay as wide as each other
    normalize: bool = False
    part = "ffn"


Units = Heads | Neurons
Pruning = Annotated[NoPruning | Heads | Neurons, BY_KIND]
"""The closed union of what a stage removes."""
NOTHING = NoPruning()


def units(encoder: Encoder, part: SharedPart) -> dict[int, int]:
    """The number of heads or neurons of each layer that owns some."""
    return {
        layer: encoder.layers[layer].heads if part == "attention" else encoder.layers[layer].ffn
        for layer in sorted(set(encoder.owners[part]))
    }
