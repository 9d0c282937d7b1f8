"""Pruning: heads, neurons, layers and ranks that a stage removes from a trained network.

Heads belong to attention, neurons to feed-forward parts. Layers that share a part share its heads
or neurons, which then count once. What is removed has only weights of zero from then on: its
gradients are zero too, so it stays so, and ``bertc.compress`` cuts it out when the run ends.
Whole layers, and ranks of the token table, are gone from the first step of the stage, whose network
is a smaller one.
"""

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.diagnostics import several
from bertc.ir.base import Axis, Node, Probability, Width
from bertc.ir.changing.targets import ByShare, Target
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import SharedPart

Within = Literal["network", "layer"]
AXES: dict[SharedPart, Axis] = {"attention": "heads", "ffn": "ffn"}
"""The axis of weights along which the heads or neurons of a part lie."""


class NoPruning(Node):
    """Nothing is removed."""

    kind: Literal["none"] = "none"


class _Removal(Node):
    """Removal of some, or of as many as it takes to reach a target.

    ``aimed`` is the share that reaches ``to``, which the program as a whole decides.
    """

    to: Annotated[Target, Field(exclude_if=ByShare().__eq__)] = ByShare()
    aimed: Annotated[float, Field(ge=0, le=1, exclude_if=(0.0).__eq__)] = 0.0
    looked_up: ClassVar[tuple[str, ...]] = ("aimed",)

    @property
    @abstractmethod
    def told(self) -> bool:
        """True if it says itself how much goes."""

    @property
    def open(self) -> bool:
        """True if it is not known yet how much goes."""
        return not self.told and not self.aimed

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.told and self.to != ByShare():
            raise ValueError("a share and a target exclude each other")
        if not self.told and self.to == ByShare():
            raise ValueError("a share is missing, or a target that says how much is left")
        return self


class _Units(_Removal):
    """Removal of a share of all heads or neurons, those with the lowest scores.

    ``by``: |dL/dgate| of a gate of 1 that multiplies the output of one, its first-order effect on
    the loss (Michel et al. 2019, 2.2; Molchanov et al. 2017, 2.2), a mean over the first
    ``examples`` rows of the stage; the norm of its weights; or a random number. ``normalize``
    divides the scores of a layer by their norm. ``within=layer`` removes the same share of every
    layer. ``every``: so much at a time, with equally many steps of training after each; 0: all
    before the first step. If the task's score on its dev part is below ``floor``, no more goes.
    """

    share: Probability = 0.0
    by: Literal["gradient", "magnitude", "random"] = "gradient"
    within: Within = "network"
    every: Probability = 0.0
    examples: Annotated[int, Field(ge=1, le=10**9)] = 512
    floor: Probability = 0.0
    normalize: bool = True
    positional = ("share",)

    part: ClassVar[SharedPart]

    @property
    def told(self) -> bool:
        """True with a share."""
        return self.share > 0

    @property
    def amount(self) -> float:
        """The share that goes."""
        return self.aimed or self.share

    @property
    def rounds(self) -> int:
        """Number of times that something is removed."""
        return math.ceil(round(self.amount / self.every, 6)) if self.every else 1

    def share_at(self, step: int, steps: int) -> float | None:
        """The share that is gone before step ``step`` of ``steps``; None if none goes just then.

        The first round is before the first step, and all are as far apart as possible.
        """
        for number in range(self.rounds):
            if step == number * steps // self.rounds and step < steps:
                most = self.every * (number + 1)
                return min(self.amount, most) if self.every else self.amount
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


class _Smaller(Node):
    """Removal that leaves a smaller network from the first step of a stage on.

    ``every``: so large a share of all at a time, in rounds with equally many steps of training
    after each, every one a stage of its own; 0: all at once. If the task's score on its dev part is
    below ``floor`` at the end of the stage or round before, no more goes.
    """

    every: Annotated[Probability, Field(exclude_if=(0.0).__eq__)] = 0.0
    floor: Annotated[Probability, Field(exclude_if=(0.0).__eq__)] = 0.0

    @property
    @abstractmethod
    def left(self) -> int:
        """The number of layers that are left, or the width."""

    @property
    @abstractmethod
    def in_rounds(self) -> "tuple[Self, ...]":
        """The removal of each round, of the network that the one before left."""

    @property
    def rounds(self) -> int:
        """Number of times that something is removed."""
        return len(self.in_rounds)


class Layers(_Removal, _Smaller):
    """Whole layers, before the first step of the stage (Sajjad et al. 2023, section 3).

    ``which`` are their numbers, from 0, or a share of all ``depth``. Of a share ``by`` says which:
    the highest, the lowest, or every other one from below the highest down. In rounds they go in
    this order.
    """

    kind: Literal["layers"] = "layers"
    which: (
        Annotated[float, Field(ge=0, lt=1)]
        | Annotated[tuple[Annotated[int, Field(ge=0, le=999)], ...], Field(min_length=1)]
    ) = 0.0
    by: Literal["top", "bottom", "alternate"] = "top"
    depth: Annotated[int, Field(ge=0, le=1000)] = 0
    positional = ("which",)
    looked_up = ("aimed", "depth")

    @property
    def told(self) -> bool:
        """True with numbers or a share."""
        return self.which != 0.0

    @property
    def removed(self) -> tuple[int, ...]:
        """Numbers of the layers that go, of ``depth``, in the order in which they do."""
        if isinstance(self.which, tuple):
            return self.which
        number = round((self.aimed or self.which) * self.depth)
        match self.by:
            case "top":
                return tuple(range(self.depth - 1, self.depth - number - 1, -1))
            case "bottom":
                return tuple(range(number))
            case "alternate":
                return tuple(self.depth - 2 * place for place in range(1, number + 1))

    @property
    def kept(self) -> tuple[int, ...]:
        """Numbers of the layers that are left."""
        return tuple(layer for layer in range(self.depth) if layer not in self.removed)

    @property
    def left(self) -> int:
        """The number of layers that are left."""
        return len(self.kept)

    @property
    def in_rounds(self) -> "tuple[Layers, ...]":
        """Itself, or with ``every`` a list of layers for each round, numbered as they are then."""
        if not self.every:
            return (self,)
        size, left = max(1, round(self.every * self.depth)), list(range(self.depth))
        rounds = list[Layers]()
        for first in range(0, len(self.removed), size):
            gone = self.removed[first : first + size]
            which = tuple(sorted(left.index(layer) for layer in gone))
            rounds.append(Layers(which=which, depth=len(left), floor=self.floor))
            left = [layer for layer in left if layer not in gone]
        return tuple(rounds)

    @property
    def most(self) -> int:
        """The number of layers that can go."""
        return self.depth // 2 if self.by == "alternate" else self.depth - 1

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


class Rank(_Smaller):
    """The token table as a narrower one and a projection, closest to it (ALBERT 3.1).

    The ``width`` largest singular values are left, from the first step of the stage. ``whole`` is
    the width before.
    """

    kind: Literal["rank"] = "rank"
    width: Width
    whole: Annotated[int, Field(ge=0, exclude_if=(0).__eq__)] = 0
    positional = ("width",)
    looked_up = ("whole",)

    @property
    def left(self) -> int:
        """Its width."""
        return self.width

    @property
    def in_rounds(self) -> "tuple[Rank, ...]":
        """Itself, or with ``every`` one that leaves less and less."""
        if not self.every or self.whole <= self.width:
            return (self,)
        size = max(1, round(self.every * self.whole))
        widths = (*range(self.whole - size, self.width, -size), self.width)
        return tuple(Rank(width=width, floor=self.floor) for width in widths)


Units = Heads | Neurons
Removal = Units | Layers | Rank
Pruning = Annotated[NoPruning | Heads | Neurons | Layers | Rank, Field(discriminator="kind")]
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
