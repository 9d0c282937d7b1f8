"""Outputs that terms want of a network, and the layers that these take."""

from typing import NamedTuple


class Wanted(NamedTuple):
    """Layers whose states are returned, and layers whose queries, keys and values are.

    0 stands for the embeddings, 1 for the first layer. ``last``: the last states are read too;
    ``decoded``: those of the mask decoder are.
    """

    states: tuple[int, ...] = ()
    projections: tuple[int, ...] = ()
    last: bool = True
    decoded: bool = False

    def whole_layers(self, depth: int) -> int:
        """Number of lowest layers, of ``depth``, that are computed in full."""
        if self.last:
            return depth
        below = (depth - 1) * self.decoded
        return max((below, *self.states, *(layer - 1 for layer in self.projections)))

    def projects_next(self, depth: int) -> bool:
        """True if of the layer above these queries, keys and values are computed, and no more."""
        return max((0, *self.projections)) > self.whole_layers(depth)
