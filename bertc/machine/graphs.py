"""Counters of torch's compiler."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Graphs:
    """Counts of compiled graphs and graph breaks."""

    compiled: int
    breaks: int

    def since(self, earlier: "Graphs") -> "Graphs":
        """The counts since an earlier moment."""
        return Graphs(self.compiled - earlier.compiled, self.breaks - earlier.breaks)


def graphs_so_far() -> Graphs:
    """The counts until now; a new graph in a later step is a recompilation."""
    from torch._dynamo.utils import counters  # the compiler takes a second to load

    return Graphs(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
