"""Learning-rate schedules, as pure functions of the step."""

import math
from collections.abc import Callable, Mapping

from bertc.ir.learning import schedule as kinds
from bertc.ir.program import Stage

REMAINING: Mapping[str, Callable[[float], float]] = {
    "1-sqrt": lambda progress: 1 - math.sqrt(progress),
    "linear": lambda progress: 1 - progress,
    "cosine": lambda progress: (1 + math.cos(math.pi * progress)) / 2,
}
"""Decays from 1 to 0, at a progress from 0 to 1."""


def rate(stage: Stage, step: float) -> float:
    """The learning rate of the update after ``step`` updates of the whole run.

    Updates are counted from 0, as global_step in BERT's optimization.py: the first of a warm-up has
    rate 0, update W the full rate (or, with a decay from update 0, the rate that has been falling
    since), and the last one is a step short of the end of the decay. By the clock ``step`` is the
    share of time used, times the steps of the schedule.
    """
    updates = step - stage.schedule_start
    if updates < stage.warmup_steps:
        schedule = stage.optimizer.schedule
        falling = isinstance(schedule, kinds.Decay) and schedule.decay_from == "throughout"
        peak = stage.optimizer.lr * (_decay(stage, updates) if falling else 1)
        return peak * updates / stage.warmup_steps
    return stage.optimizer.lr * _decay(stage, updates)


def _decay(stage: Stage, updates: float) -> float:
    """The factor on the peak rate after ``updates`` updates of the stage, past warm-up."""
    schedule, last = stage.optimizer.schedule, stage.optimizer.decay_steps(stage.schedule_steps)
    remaining = max(0, stage.schedule_steps - updates)
    if isinstance(schedule, kinds.Decay) and remaining <= last > 0:
        return _end(stage, schedule) * remaining / last
    match schedule:
        case kinds.Polynomial(power=power):
            end = _end(stage, schedule)
            return float(end + (1 - end) * (1 - _progress(stage, schedule, updates)) ** power)
        case kinds.Cosine():
            end, angle = _end(stage, schedule), math.pi * _progress(stage, schedule, updates)
            return float(end + (1 - end) * (1 + math.cos(angle)) / 2)
        case kinds.ConstantRate():
            return 1.0
        case kinds.InverseSqrt():
            return math.sqrt(max(1, stage.warmup_steps) / max(1, updates))
        case kinds.WarmupStableDecay(shape=shape, end=end):
            if remaining >= last or not last:
                return 1.0
            return end + (1 - end) * REMAINING[shape]((last - remaining) / last)
        case kinds.OwnSchedule():
            return schedule.factor(_progress(stage, schedule, updates))


def _end(stage: Stage, schedule: kinds.Decay) -> float:
    """The final rate as a fraction of the peak."""
    return max(schedule.end, schedule.end_lr / stage.optimizer.lr)


def _progress(stage: Stage, schedule: kinds.Schedule, updates: float) -> float:
    """The fraction of the schedule that is over, from 0 to 1."""
    begins = getattr(schedule, "decay_from", "warmup")
    start = stage.warmup_steps if begins == "warmup" else 0
    return min(1.0, (updates - start) / max(1, stage.schedule_steps - start))
