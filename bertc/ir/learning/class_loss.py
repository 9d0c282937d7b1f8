"""Weights of classes and examples in the loss of a task."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node

ClassWeights = tuple[Annotated[float, Field(gt=0, le=1e6)], ...]


class _ClassLoss(Node):
    """The cross entropy of classes; of several labels at once that of each.

    ``smoothing`` is the part of each target that all classes share (Szegedy et al. 2016, section
    7), of several labels what they are moved towards 1/2. ``weights`` are of classes in the order
    of their names: the loss is the mean by weight (torch CrossEntropyLoss). For several labels at
    once they weigh the examples that have a label (BCEWithLogitsLoss, pos_weight).
    """

    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weights: ClassWeights = ()
    positional: ClassVar[tuple[str, ...]] = ("smoothing",)
    looked_up: ClassVar[tuple[str, ...]] = ("weights",)

    @property
    def power(self) -> float:
        """The power of 1 - p that its terms are multiplied by."""
        return 0.0


class PlainLoss(_ClassLoss):
    """Cross entropy in which all classes weigh the same."""

    kind: Literal["plain"] = "plain"


class BalancedLoss(_ClassLoss):
    """Weights by the training file: examples / (classes x examples of the class).

    Of several labels at once: examples without the label / examples with it.
    """

    kind: Literal["balanced"] = "balanced"


class WeightedLoss(_ClassLoss):
    """Weights as written."""

    kind: Literal["weights"] = "weights"
    weights: Annotated[ClassWeights, Field(min_length=1)]
    positional = ("weights", "smoothing")
    looked_up = ()


class FocalLoss(_ClassLoss):
    """Cross entropy times (1 - p)^gamma, p being the probability of the target."""

    kind: Literal["focal"] = "focal"
    gamma: Annotated[float, Field(ge=0, le=100)] = 2.0  # Lin et al. 2017, section 4.1
    positional = ("gamma", "smoothing")

    @property
    def power(self) -> float:
        return self.gamma


ClassLoss = Annotated[PlainLoss | BalancedLoss | WeightedLoss | FocalLoss, BY_KIND]
"""The closed union of losses of classes."""
PLAIN_LOSS = PlainLoss()
