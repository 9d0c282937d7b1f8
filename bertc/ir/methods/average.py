"""Averages of weights over a stage, one tensor beside each weight.

After a step the average moves to the weights by a share of the way between them, as they are then.
"""

from collections.abc import Callable
from operator import not_
from typing import Annotated, Literal, Self

from pydantic import Field

from bertc.ir.base import BY_KIND, Count, Node, Tokens
from bertc.ir.fixes import Rule, Rules, argument
from bertc.ir.learning.optimizer import steps_of
from bertc.ir.learning.schedule import Length
from bertc.ir.methods.method import Held, Method, restoring


class NoAverage(Node):
    """Weights as they are."""

    kind: Literal["none"] = "none"


class Ema(Method):
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

    setting = "average"
    holds = Held(
        "average.safetensors",
        evaluated="of the average of the weights (average=ema(...))",
        moved=3,  # the weight and its average are read, the average is written
    )
    rules = Rules(
        stage=(
            Rule("E380", "average", lambda s: not s.average.of_stage(0, s.steps).steps,
                 "average = ema: half_life is less than a step",
                 also=lambda s: ("steps", f"steps = {s.steps}"),
                 way=lambda s: argument("average", s.origins["average"], "half_life", "1")),
            Rule("E381", "average", lambda s: s.tasks and restoring(s),
                 lambda s: f"{restoring(s)} ends with the weights of the best evaluation, not with "
                 "an average",
                 also=lambda s: (restoring(s), f"{restoring(s)} is set here"), help="average=none"),
        ),
        tasks=(
            Rule("E327", "average", lambda s: s.average.in_tokens,
                 "half_life of a task is not counted in tokens: its rows are as long as its "
                 "examples",
                 way=lambda s: argument("average", s.origins["average"], "half_life", "100")),
        ),
        timed=(
            Rule("E329", "average", lambda s: isinstance(s.average.half_life, float),
                 "half_life is a number of steps: a time does not say how many a share is",
                 way=lambda s: argument("average", s.origins["average"], "half_life", "700")),
        ),
    )  # fmt: skip

    @property
    def in_tokens(self) -> bool:
        return isinstance(self.half_life, Tokens)

    def in_steps(self, count: Callable[[Tokens], int]) -> Self:
        assert isinstance(self.half_life, Tokens), "asked of lengths in tokens"
        return self.model_copy(update={"half_life": count(self.half_life)})

    def of_stage(self, first: int, last: int) -> Self:
        return self.model_copy(update={"begin": first, "end": last})

    @property
    def steps(self) -> int:
        return steps_of(self.half_life, self.end - self.begin)

    def share_at(self, step: int) -> float:
        """The share of the weights in their average after run step ``step``."""
        return 1.0 if step == self.begin + 1 else 1 - 0.5 ** (1 / self.steps)

    def extent(self, done: int, steps: int) -> float:
        return steps_of(self.half_life, steps)

    def has_begun(self, step: int) -> bool:
        return step > self.begin


Average = Annotated[NoAverage | Ema, BY_KIND]
"""The closed union of averages."""
NO_AVERAGE = NoAverage()
