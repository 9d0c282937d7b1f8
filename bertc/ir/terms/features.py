"""Layers whose states something reads of a network, and how they become one state a token.

Devlin et al. 2019, 5.3, table 7, has these choices. Layers are counted from 1, 0: embeddings.
"""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node

Joins = Literal["one", "sum", "concat", "weighted-sum"]
"""States as they are, summed, side by side, or summed by learned weights."""
Count = Annotated[int, Field(ge=1, le=1000)] | Literal["all"]


class LayersRead(Node):
    """Some layers of a network; ``joins`` says how several become one.

    ``reads_last``: the last one is among them.
    """

    joins: ClassVar[Joins] = "one"
    reads_last: ClassVar[bool] = True

    @abstractmethod
    def layers(self, depth: int) -> tuple[int, ...]:
        """The layers, lowest first."""

    @property
    def least(self) -> int:
        """Fewest layers that a network needs for it."""
        return 1


class Last(LayersRead):
    """The last layer."""

    kind: Literal["last"] = "last"

    def layers(self, depth: int) -> tuple[int, ...]:
        return (depth,)


class SecondToLast(LayersRead):
    """The layer below the last."""

    kind: Literal["second-to-last"] = "second-to-last"
    reads_last = False

    @property
    def least(self) -> int:
        return 2

    def layers(self, depth: int) -> tuple[int, ...]:
        return (depth - 1,)


class EmbeddingsAlone(LayersRead):
    """The input of the first layer."""

    kind: Literal["embeddings"] = "embeddings"
    reads_last = False

    def layers(self, depth: int) -> tuple[int, ...]:
        return (0,)


class _Several(LayersRead):
    """The ``last`` layers, ``all``: every one, without the embeddings."""

    last: Count = 4
    positional = ("last",)

    @property
    def least(self) -> int:
        return 1 if self.last == "all" else self.last

    def layers(self, depth: int) -> tuple[int, ...]:
        return tuple(range(1 if self.last == "all" else depth - self.last + 1, depth + 1))


class LayerSum(_Several):
    """The sum of the ``last`` layers' states; ``all``: of every layer, without the embeddings."""

    kind: Literal["sum"] = "sum"
    joins = "sum"


class WeightedSum(_Several):
    """A sum by learned weights: a softmax over layers, times a learned factor (ELMo, 3.2).

    Peters et al. 2018, eq. 1. BERT's table says "weighted sum" and not by which weights.
    """

    kind: Literal["weighted-sum"] = "weighted-sum"
    joins = "weighted-sum"


class Concat(_Several):
    """The states of the ``last`` layers side by side, the lowest first."""

    kind: Literal["concat"] = "concat"
    joins = "concat"


Features = Annotated[
    Last | SecondToLast | EmbeddingsAlone | LayerSum | WeightedSum | Concat, BY_KIND
]
"""The closed union of choices of layers."""
LAST = Last()
