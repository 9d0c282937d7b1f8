"""Obstacles to an export: a setting that no layout can represent, the reason, the remedy."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Obstacle:
    """A setting, as written in a spec, that no layout can represent, and the reason.

    ``instead`` is a setting for a spec that avoids the obstacle, empty if there is none.
    """

    setting: str
    why: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.setting} stands in the way: {self.why}"

    @property
    def way_out(self) -> str:
        """A remedy for a run that is trained already."""
        loading = "bertc.load reads the run's model folder"
        return f"in a new run: {self.instead}; {loading}" if self.instead else loading


def first_of(obstacles: Iterable[Obstacle]) -> Obstacle | None:
    """The first of several obstacles, with a remedy that removes all of them."""
    several = list(obstacles)
    if not several:
        return None
    values = {obstacle.instead.partition("=")[0]: obstacle.instead for obstacle in several}
    return replace(several[0], instead="" if "" in values else " ".join(values.values()))
