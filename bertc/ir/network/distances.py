"""Distances between two tokens, as scores know them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ranges:
    """Distances by rows of a table of ``buckets``: near ones have a row each, others share.

    Those up to ``single`` have a row of their own; ranges up to ``distance`` have the others, which
    takes at least ``least``.
    """

    buckets: int
    single: int
    distance: int
    least: int

    @property
    def problem(self) -> str:
        """The reason why ``distance`` is too short; empty if it is not."""
        if self.distance >= self.least:
            return ""
        reason = f"{self.buckets} buckets are of single distances up to {self.single}, and "
        return f"{reason}distance = {self.distance} leaves nothing to the others"


@dataclass(frozen=True)
class Distances:
    """Scores by distance, which need no position embeddings and allow a memory before rows.

    ``backward``: rows may be reversed. ``clamps``: it has a ``clamp`` that evaluation may set.
    ``in_pieces``: its steps depend on the length of a row in more than sizes.
    """

    backward: bool = False
    clamps: bool = False
    in_pieces: bool = False
