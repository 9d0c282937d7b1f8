"""The base of all attention kinds."""

from abc import abstractmethod
from typing import ClassVar, Self

from bertc.ir import operation as op
from bertc.ir.base import Drawn, Node, Weight


class AttentionNode(Node):
    """An attention kind; its answers here are those of most kinds."""

    knows_distances: ClassVar[bool] = False

    def at(self, layer: int) -> Self:
        """The attention of that layer; a kind may differ from layer to layer."""
        return self

    @property
    def compares_segments(self) -> bool:
        """True if it tells any number of segments apart, without a table."""
        return False

    def common_weights(self, heads: int, head_dim: int, init: Drawn) -> tuple[Weight, ...]:
        """Weights that all layers use, by name, whoever shares the rest: none."""
        return ()

    @abstractmethod
    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        """The operations of one layer, without its norm and residual branch."""

    def shared_operations(self, call: op.Call) -> op.Operations:
        """Operations done once for all layers: none."""
        return ()
