"""Pruning: heads, neurons and layers that a stage removes from a trained network.

Heads belong to attention, neurons to feed-forward parts. Layers that share a part share its heads
or neurons, which then count once. What is removed has only weights of zero from then on: its
gradients are zero too, so it stays so, and ``bertc.ir.weight_maps`` cuts it out when the run ends.
Whole layers are gone from the first step of the stage, whose network is a smaller one.
"""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.base.diagnostics import several
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
    before the first step. If the task's score on its dev part is below ``floor``, no more goes.
    """

    share: Annotated[Probability, Field(gt=0)]
    by: Literal["gradient", "magnitude", "random"] = "gradient"
    within: Within = "network"
    every: Probability = 0.0
    examples: Annotated[int, Field(ge=1, le=10**9)] = 512
    floor: Probability = 0.0
    normalize: bool = True
    positional = ("share",)

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


class Layers(Node):
    """Whole layers, before the first step of the stage (Sajjad et al. 2023, section 3).

    ``which`` are their numbers, from 0, or a share of all ``depth``. Of a share ``by`` says which:
    the highest, the lowest, or every other one from below the highest down.

    ``every``: so large a share of all at a time, in this order, in rounds with equally many steps
    of training after each, every one a stage; 0: all at once.
    """

    kind: Literal["layers"] = "layers"
    which: (
        Annotated[float, Field(gt=0, lt=1)]
        | Annotated[tuple[Annotated[int, Field(ge=0, le=999)], ...], Field(min_length=1)]
    )
    by: Literal["top", "bottom", "alternate"] = "top"
    depth: Annotated[int, Field(ge=0, le=1000)] = 0
    every: Annotated[Probability, Field(exclude_if=(0.0).__eq__)] = 0.0
    positional = ("which",)
    looked_up = ("depth",)

    @property
    def rounds(self) -> int:
        return len(self.in_rounds)

    @property
    def removed(self) -> tuple[int, ...]:
        """Numbers of the layers that go, of ``depth``, in the order in which they do."""
        if isinstance(self.which, tuple):
            return self.which
        number = round(self.which * self.depth)
        match self.by:
            case "top":
                return tuple(range(self.depth - 1, self.depth - number - 1, -1))
            case "bottom":
                return tuple(range(number))
            case "alternate":
                return tuple(self.depth - 2 * place for place in range(1, number + 1))

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(layer for layer in range(self.depth) if layer not in self.removed)

    @property
    def in_rounds(self) -> "tuple[Layers, ...]":
        """Itself, or with ``every`` a list of layers for each round, numbered as they are then."""
        if not self.every:
            return (self,)
        size, remaining = max(1, round(self.every * self.depth)), list(range(self.depth))
        rounds = list[Layers]()
        for first in range(0, len(self.removed), size):
            gone = self.removed[first : first + size]
            which = tuple(sorted(remaining.index(layer) for layer in gone))
            rounds.append(Layers(which=which, depth=len(remaining)))
            remaining = [layer for layer in remaining if layer not in gone]
        return tuple(rounds)

    @property
    def misfit(self) -> str:
        """The reason why a network of ``depth`` layers cannot lose these; empty if it can."""
        gone = self.removed
        there = f"this network has {several(self.depth, 'layer')}, counted from 0"
        if strange := [layer for layer in gone if not 0 <= layer < self.depth]:
            if isinstance(self.which, tuple):
                return f"there is no layer {strange[0]}: {there}"
            return f"every other one of {self.depth} layers are {self.depth // 2}, not {len(gone)}"
        if len(set(gone)) < len(gone):
            return f"layer {next(n for n in gone if gone.count(n) > 1)} is named twice"
        if not gone:
            return f"{self.which:.4g} of {several(self.depth, 'layer')} is none"
        return "" if self.kept else "no layer would be left"


Units = Heads | Neurons
Removal = Units | Layers
Pruning = Annotated[NoPruning | Heads | Neurons | Layers, BY_KIND]
"""The closed union of what a stage removes."""
NOTHING = NoPruning()


def units(encoder: Encoder, part: SharedPart) -> dict[int, int]:
    """The number of heads or neurons of each layer that owns some."""
    return {
        layer: encoder.layers[layer].heads if part == "attention" else encoder.layers[layer].ffn
        for layer in sorted(set(encoder.owners[part]))
    }


def number_to_remove(counts: list[int], share: float) -> int:
    """A share of the heads or neurons of these layers, of which each keeps one."""
    return min(round(share * sum(counts)), sum(counts) - len(counts))
