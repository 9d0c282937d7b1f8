"""Outputs that terms want of a network besides its last states."""

from typing import NamedTuple


class Wanted(NamedTuple):
    """Layers whose states are returned: 0 for the embeddings, 1 for the first layer."""

    states: tuple[int, ...] = ()
