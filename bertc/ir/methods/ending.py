"""Ends of a stage before its steps: by a clock, or by patience."""

from operator import not_
from typing import Annotated, Any

from pydantic import Field

from bertc.ir.base import Node
from bertc.ir.fixes import Rule, Rules, argument, fix
from bertc.ir.methods.method import Held, Method
from bertc.ir.written import DEFAULT_STAGE

MOST_STEPS = 10**9
"""Steps of a run by the clock, of which it makes as many as it has time for."""


class Clock(Method):
    """The end after ``hours`` of training, evaluations and saving apart; rates follow the time."""

    hours: float = Field(gt=0)

    setting = "clock"
    rules = Rules(timed=(
        Rule("E329", "steps", lambda s: s.name != DEFAULT_STAGE,
             "a clock measures a run of one stage, not of several",
             help="steps of each stage, or one stage"),
        Rule("E329", "steps", lambda s: s.tasks,
             "a clock measures a run on text: the length of a task is told in epochs",
             way=lambda s: {"help": "epochs=3", "fix": fix(s.origins["steps"], "epochs=3")}),
        Rule("E329", "optimizer",
             lambda s: s.optimizer.warmup and not isinstance(s.optimizer.warmup, float),
             "a warm-up by the clock is a share of its time",
             way=lambda s: argument("optimizer", s.origins["optimizer"], "warmup", "1%")),
        Rule("E329", "optimizer",
             lambda s: s.optimizer.last and not isinstance(s.optimizer.last, float),
             "a decay by the clock is a share of its time", help="as in schedule=wsd(decay=10%)"),
        Rule("E329", "optimizer", lambda s: bool(getattr(s.optimizer.schedule, "over", 0)),
             "a schedule by the clock ends when its time does: leave over out",
             help="schedule=cosine"),
    ))  # fmt: skip


class Timed(Node):
    """Settings of a run, or of a stage, and the hours that end it; 0: it has steps."""

    clock: Annotated[float, Field(exclude_if=not_)] = 0.0

    @property
    def methods(self) -> tuple[Any, ...]:
        """The methods that act over the steps of all stages."""
        return (Clock(hours=self.clock),) if self.clock else ()

    @property
    def most_seconds(self) -> float:
        """Seconds of training that end it, evaluations and saving apart; 0: it has steps."""
        return 3600 * self.clock


class Patience(Method):
    """The end of a stage after ``evaluations`` without a better score, with its best weights."""

    evaluations: Annotated[int, Field(ge=1)]

    setting = "patience"
    holds = Held("best.safetensors", on_devices=False)
    reads = "tasks"
    restores = True
    why_final = "it ends with the weights of its best evaluation (patience)"
    rules = Rules(text=(
        Rule("E275", "patience", lambda s: True,
             "patience needs the scores of a task, but the objective has none",
             also=("objective", "the objective is set here"), help="patience=0"),
    ))  # fmt: skip
