"""Learning rates, as pure functions of the step."""

import math
from typing import assert_never

from bertc.ir.learning.optimizer import ConstantRate, Cosine, Decay, InverseSqrt, Polynomial
from bertc.ir.program.resolved import Stage


def rate(stage: Stage, step: int) -> float:
    """The learning rate of the update that follows ``step`` finished ones of the whole run.

    Updates are counted from 0, and the count is read before the update, as global_step is in
    BERT's optimization.py: the first update of a warm-up has rate 0, update W the full rate
    (or, with a decay from update 0, the rate that has been falling since), and the last
    one is a step short of the end of the decay.
    """
    done = step - stage.schedule_start
    if done < stage.warmup_steps:
        schedule = stage.optimizer.schedule
        falling = isinstance(schedule, Decay) and schedule.decay_from == "throughout"
        height = stage.optimizer.lr * (_decay(stage, done) if falling else 1)
        return height * done / stage.warmup_steps
    return stage.optimizer.lr * _decay(stage, done)


def _decay(stage: Stage, done: int) -> float:
    """The factor on the peak rate after warm-up."""
    warmup = stage.warmup_steps
    match stage.optimizer.schedule:
        case Polynomial(power=power) as schedule:
            end = _end(stage, schedule)
            return float(end + (1 - end) * (1 - _progress(stage, schedule, done)) ** power)
        case Cosine() as schedule:
            end, angle = _end(stage, schedule), math.pi * _progress(stage, schedule, done)
            return float(end + (1 - end) * (1 + math.cos(angle)) / 2)
        case ConstantRate():
            return 1.0
        case InverseSqrt():
            return math.sqrt(max(1, warmup) / max(1, done))
        case unreachable:
            assert_never(unreachable)


def _end(stage: Stage, schedule: Decay) -> float:
    """The last rate as a part of the first."""
    return max(schedule.end, schedule.end_lr / stage.optimizer.lr)


def _progress(stage: Stage, schedule: Decay, done: int) -> float:
    """The part of the way to the end of the schedule, 1 from there on."""
    start = stage.warmup_steps if schedule.decay_from == "warmup" else 0
    return min(1.0, (done - start) / max(1, stage.schedule_steps - start))
