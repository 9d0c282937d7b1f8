"""Why a layout cannot say what a program is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Obstacle:
    """A setting, as one would write it, that no layout can say, and why."""

    setting: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting} stands in the way: {self.why}"
