"""Bytes on disk of a run: its checkpoints, and the model that it ends with."""

from bertc.ir.base import Weight
from bertc.ir.learning.optimizer import moments_of
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage

WEIGHT_BYTES = 4


def checkpoints_kept(resolved: Resolved) -> int:
    """Number of checkpoints that a finished run has."""
    saved, keep = -(-resolved.steps // resolved.run.save_every), resolved.run.keep
    return saved if keep == "all" else min(keep, saved)


def checkpoint_bytes(resolved: Resolved) -> int:
    """Bytes of the largest checkpoint of a run."""
    return max(_checkpoint_bytes(resolved, stage) for stage in resolved.stages)


def next_bytes(resolved: Resolved, step: int) -> int:
    """Bytes of the first checkpoint after a step, and of the model that a run ends with."""
    model = WEIGHT_BYTES * _numbers(_table(resolved, resolved.stages[-1]))
    unfinished = step < resolved.steps
    return model + unfinished * _checkpoint_bytes(resolved, resolved.trained_at(step))


def _checkpoint_bytes(resolved: Resolved, stage: Stage) -> int:
    """Weights, moments, and the best weights or an average."""
    table = _table(resolved, stage)
    moments = tuple(moments_of(stage.optimizer, table).values())
    beside = bool(stage.patience) + stage.average.kept
    return WEIGHT_BYTES * ((1 + beside) * _numbers(table) + _numbers(moments))


def _table(resolved: Resolved, stage: Stage) -> tuple[Weight, ...]:
    return model_weights(resolved.as_in(stage))


def _numbers(weights: tuple[Weight, ...]) -> int:
    return sum(weight.numel for weight in weights)
