"""What a learning experiment is: specs that are compared, each trained with several seeds."""

from collections.abc import Mapping
from dataclasses import dataclass

SEEDS = (1, 2, 3)
ONCE = "precision=fp32 keep=1 eval_every=100k save_every=100k log_every=50"
"""Settings of all arms: one evaluation and one checkpoint, at the end."""


@dataclass(frozen=True)
class Arm:
    """One spec. Its runs stay where others begin with them."""

    name: str
    spec: str
    kept: bool = False


@dataclass(frozen=True)
class Question:
    """Arms that are compared, and run folders whose latency is measured after them.

    Arms without steps of their own train for so many FLOPs each.
    """

    name: str
    asks: str
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = SEEDS
    timed: tuple[str, ...] = ()
    flops: float | None = None


def arms(common: str, own: Mapping[str, str]) -> tuple[Arm, ...]:
    """Arms by name, each with settings of its own beside common ones."""
    return tuple(Arm(name, f"{ONCE} {common} {text}") for name, text in own.items())
