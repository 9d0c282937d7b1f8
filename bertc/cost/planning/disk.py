"""Bytes on disk of a run: its checkpoints, and the model that it ends with."""

from bertc.ir.learning.optimizer import moments_of
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage

WEIGHT_BYTES = 4


def checkpoints_kept(resolved: Resolved) -> int:
    """Number of checkpoints that a finished run has."""
    saved, keep = -(-resolved.steps // resolved.run.save_every), resolved.run.keep
    return saved if keep == "all" else min(keep, saved)


def checkpoint_bytes(resolved: Resolved, stage: Stage) -> int:
    """Bytes of a checkpoint in a stage: weights, moments, and the best weights or an average."""
    table = model_weights(resolved.as_in(stage))
    moments = moments_of(stage.optimizer, table).values()
    copies = 1 + bool(stage.patience) + stage.average.kept
    return WEIGHT_BYTES * sum(w.numel for w in (*table * copies, *moments))


def next_bytes(resolved: Resolved, step: int) -> int:
    """Bytes of the first checkpoint after a step, and of the model that a run ends with."""
    model = sum(weight.numel for weight in model_weights(resolved.as_in(resolved.stages[-1])))
    unfinished = step < resolved.steps
    saved = unfinished * checkpoint_bytes(resolved, resolved.trained_at(step))
    return WEIGHT_BYTES * model + saved
