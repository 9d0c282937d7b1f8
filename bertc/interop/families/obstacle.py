"""Obstacles to an export: settings that no family can say, the reason, and the remedy."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Obstacle:
    """A setting, as one would write it, that no layout can say, and why.

    ``instead`` is what to write in a spec so that this is no obstacle, empty if nothing does.
    """

    setting: str
    why: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.setting} stands in the way: {self.why}"

    @property
    def way_out(self) -> str:
        """A remedy for a run that is trained already."""
        own = "bertc.load reads the run's model folder"
        return f"in a new run: {self.instead}; {own}" if self.instead else own


def first_of(obstacles: Iterable[Obstacle]) -> Obstacle | None:
    """The first of several, with what to write for all of them: one mend alone would not do."""
    found = list(obstacles)
    if not found:
        return None
    values = {each.instead.partition("=")[0]: each.instead for each in found}
    return replace(found[0], instead="" if "" in values else " ".join(values.values()))
