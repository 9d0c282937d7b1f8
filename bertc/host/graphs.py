"""What the compiler has done so far in this process."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Graphs:
    """Graphs compiled, and places where one had to end before its function did."""

    compiled: int
    breaks: int

    def since(self, earlier: "Graphs") -> "Graphs":
        """What was added."""
        return Graphs(self.compiled - earlier.compiled, self.breaks - earlier.breaks)


def graphs_so_far() -> Graphs:
    """The counts of this moment; a graph more in a later step is a recompilation."""
    from torch._dynamo.utils import counters  # the compiler takes a second to load

    return Graphs(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
