"""Averages of weights over a stage, one tensor beside each weight.

After a step the average moves to the weights by a share of the way between them, as they are then.
"""

from abc import abstractmethod
from collections.abc import Callable
from operator import not_
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from bertc.ir.base import Count, Node, Tokens
from bertc.ir.learning.optimizer import Length, steps_of


class Misfit(NamedTuple):
    """The reason why a stage has no room for an average, and an argument with which it has."""

    why: str
    argument: str
    value: int


class NoAverage(Node):
    """Weights as they are."""

    kind: Literal["none"] = "none"
    kept: ClassVar[bool] = False

    def in_steps(self, count: Callable[[Tokens], int]) -> Self:
        """The same."""
        return self

    def of_stage(self, begin: int, end: int) -> Self:
        """The same."""
        return self

    def share_at(self, step: int) -> float:
        """None."""
        return 0.0

    def begun(self, step: int) -> bool:
        """False."""
        return False

    def updates(self, first: int, end: int) -> int:
        """None."""
        return 0

    @property
    def misfit(self) -> None:
        """Nothing that could not be."""
        return


class _Average(Node):
    """An average of the weights of a stage, from run step ``begin`` to ``end``.

    ``measure`` names its field that is a length.
    """

    begin: Annotated[Count, Field(exclude_if=not_)] = 0
    end: Annotated[Count, Field(exclude_if=not_)] = 0
    looked_up = ("begin", "end")
    kept: ClassVar[bool] = True
    measure: ClassVar[str]

    def in_steps(self, count: Callable[[Tokens], int]) -> Self:
        """The same with its length in steps, if it is in tokens."""
        length = getattr(self, self.measure)
        if not isinstance(length, Tokens):
            return self
        return self.model_copy(update={self.measure: count(length)})

    def of_stage(self, begin: int, end: int) -> Self:
        """The same for the steps of a stage."""
        return self.model_copy(update={"begin": begin, "end": end})

    @property
    def steps(self) -> int:
        """Its length in steps."""
        length: Length = getattr(self, self.measure)
        return steps_of(length, self.end - self.begin)

    @abstractmethod
    def share_at(self, step: int) -> float:
        """The share of the weights after run step ``step`` in their average then; 0: none."""

    @abstractmethod
    def begun(self, step: int) -> bool:
        """True if there is an average after run step ``step``."""

    @abstractmethod
    def updates(self, first: int, end: int) -> int:
        """Number of steps after ``first``, up to ``end``, with a share."""


class Ema(_Average):
    """The exponential moving average: weights of ``half_life`` steps before count half.

    It begins as the weights after the first step of the stage, and is updated after every step
    (torch.optim.swa_utils, get_ema_multi_avg_fn; ModernBERT's trainer, Composer's EMA).
    """

    kind: Literal["ema"] = "ema"
    half_life: Length
    positional = ("half_life",)
    measure = "half_life"

    def share_at(self, step: int) -> float:
        """All of the first weights, then 1 - 2^(-1 / half_life)."""
        return 1.0 if step == self.begin + 1 else 1 - 0.5 ** (1 / self.steps)

    def begun(self, step: int) -> bool:
        """True after the first step."""
        return step > self.begin

    def updates(self, first: int, end: int) -> int:
        """Every step."""
        return end - first

    @property
    def misfit(self) -> Misfit | None:
        """A half-life of no step."""
        return None if self.steps else Misfit("half_life is less than a step", "half_life", 1)


class Checkpoints(_Average):
    """The mean of the ``last`` snapshots of a stage, ``every`` steps apart, the last at its end.

    It is a running mean, so that snapshots need no memory of their own (Izmailov et al. 2018,
    section 3.2; torch.optim.swa_utils, AveragedModel).
    """

    kind: Literal["checkpoints"] = "checkpoints"
    last: Annotated[int, Field(ge=1, le=100_000)] = 5
    every: Length = 0.01
    positional = ("last", "every")
    measure = "every"

    @property
    def snapshots(self) -> range:
        """The run steps after which weights are taken."""
        first = self.end - (self.last - 1) * self.steps
        return range(first, self.end + 1, self.steps)

    def share_at(self, step: int) -> float:
        """1/n for the n-th snapshot."""
        taken = self.snapshots
        return 1 / (taken.index(step) + 1) if step in taken else 0.0

    def begun(self, step: int) -> bool:
        """True after the first snapshot."""
        return step >= self.snapshots.start

    def updates(self, first: int, end: int) -> int:
        """One for each snapshot."""
        return sum(first < step <= end for step in self.snapshots)

    @property
    def misfit(self) -> Misfit | None:
        """Snapshots of one step, or more than the stage has room for."""
        if not self.steps:
            return Misfit("every is less than a step", "every", 1)
        needed, there = (self.last - 1) * self.steps + 1, self.end - self.begin
        if needed <= there:
            return None
        why = f"with every = {self.steps} {self.last} snapshots need {needed} steps, not {there}"
        if self.last > there:
            return Misfit(why, "last", 1 + (there - 1) // self.steps)
        return Misfit(why, "every", (there - 1) // (self.last - 1))


Average = Annotated[NoAverage | Ema | Checkpoints, Field(discriminator="kind")]
"""The closed union of averages."""
NO_AVERAGE = NoAverage()
