"""Averages of weights over a stage, one tensor beside each weight.

After a step the average moves to the weights by a share of the way between them, as they are then.
"""

from collections.abc import Callable
from operator import not_
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from bertc.ir.base import BY_KIND, Count, Node, Tokens
from bertc.ir.learning.optimizer import Length, steps_of


class NoAverage(Node):
    """Weights as they are."""

    kind: Literal["none"] = "none"
    kept: ClassVar[bool] = False

    def of_stage(self, begin: int, end: int) -> Self:
        return self

    def share_at(self, step: int) -> float:
        return 0.0

    def begun(self, step: int) -> bool:
        return False


class Ema(Node):
    """The exponential moving average: weights of ``half_life`` steps before count half.

    It begins as the weights after the first step of the stage, from run step ``begin`` to ``end``,
    and is updated after every step (torch.optim.swa_utils, get_ema_multi_avg_fn; ModernBERT's
    trainer, Composer's EMA).
    """

    kind: Literal["ema"] = "ema"
    half_life: Length
    begin: Annotated[Count, Field(exclude_if=not_)] = 0
    end: Annotated[Count, Field(exclude_if=not_)] = 0
    positional = ("half_life",)
    looked_up = ("begin", "end")
    kept: ClassVar[bool] = True

    def in_steps(self, count: Callable[[Tokens], int]) -> Self:
        """The same with its half-life in steps, if it is in tokens."""
        if not isinstance(self.half_life, Tokens):
            return self
        return self.model_copy(update={"half_life": count(self.half_life)})

    def of_stage(self, begin: int, end: int) -> Self:
        return self.model_copy(update={"begin": begin, "end": end})

    @property
    def steps(self) -> int:
        return steps_of(self.half_life, self.end - self.begin)

    def share_at(self, step: int) -> float:
        """The share of the weights in their average after run step ``step``."""
        return 1.0 if step == self.begin + 1 else 1 - 0.5 ** (1 / self.steps)

    def begun(self, step: int) -> bool:
        """True if there is an average after run step ``step``: after the first of the stage."""
        return step > self.begin


Average = Annotated[NoAverage | Ema, BY_KIND]
"""The closed union of averages."""
NO_AVERAGE = NoAverage()
