"""Outputs that terms want of a network besides its last states."""

from typing import NamedTuple


class Wanted(NamedTuple):
    """Layers whose states are returned, and layers whose queries, keys and values are.

    0 stands for the embeddings, 1 for the first layer.
    """

    states: tuple[int, ...] = ()
    projections: tuple[int, ...] = ()
