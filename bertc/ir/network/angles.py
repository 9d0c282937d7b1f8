"""Slower turns of rotary positions, for rows longer than those that a network was trained on."""

import math
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir.base import BY_KIND, Node, Width

Bound = Annotated[float, Field(gt=0, le=1e6)]


class Unscaled(Node):
    """Turns as their base gives them."""

    kind: Literal["none"] = "none"
    magnitude: ClassVar[float] = 1.0


class SlowerTurns(Node):
    """Turns are ``factor`` times slower below ``slow`` in ``length`` tokens; from ``fast`` on none.

    In between a share is, linear in turns (Llama 3.1: 8, 1, 4, 8192) or, of YaRN (Peng et al. 2023:
    s, 1, 32, L), in pairs. That makes states larger by ``attention``, 0: 0.1 ln factor + 1.
    """

    kind: Literal["llama3", "yarn"] = "llama3"
    factor: Annotated[float, Field(ge=1, le=1e6)]
    slow: Bound
    fast: Bound
    length: Width
    attention: Annotated[float, Field(ge=0, le=1000)] = 0.0
    positional = ("factor", "slow", "fast", "length")

    @model_validator(mode="after")
    def _bounds_differ(self) -> Self:
        if self.fast <= self.slow:
            remedy = f"fast={self.slow * (4 if self.kind == 'llama3' else 32):g}"
            raise ValueError(f"fast = {self.fast:g} is not above slow = {self.slow:g}", remedy)
        return self

    @property
    def magnitude(self) -> float:
        """The factor of cosines and sines."""
        return self.attention or (0.1 * math.log(self.factor) + 1 if self.kind == "yarn" else 1.0)

    def speeds(self, theta: float, width: int) -> list[float]:
        """Multiples of the turns of ``width`` / 2 pairs (transformers, modeling_rope_utils.py)."""
        if self.kind == "llama3":
            turns = (self.length * theta ** (-n / width) / math.tau for n in range(0, width, 2))
            stay = [(turn - self.slow) / (self.fast - self.slow) for turn in turns]
        else:
            ends = (self.length / turn / math.tau for turn in (self.fast, self.slow))
            low, high = (width / 2 * math.log(end, theta) for end in ends)
            low, high = max(0, math.floor(low)), min(width - 1, math.ceil(high))
            stay = [1 - (n - low) / (high - low or 0.001) for n in range(width // 2)]
        shares = (min(1.0, max(0.0, share)) for share in stay)
        return [share + (1 - share) / self.factor for share in shares]


PLAIN_TURNS = Unscaled()
Scaling = Annotated[Unscaled | SlowerTurns, BY_KIND]
"""The closed union of ways to slow turns."""
