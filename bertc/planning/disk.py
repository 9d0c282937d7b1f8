"""Bytes on disk of a run: its checkpoints, and the model that it ends with."""

from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved

WEIGHT_BYTES = 4
MOMENTS = 2
"""Moments of each weight that checkpoints hold; rules that keep one of matrices have fewer."""


def checkpoints_kept(resolved: Resolved) -> int:
    """Number of checkpoints that a finished run has."""
    saved, keep = -(-resolved.steps // resolved.run.save_every), resolved.run.keep
    return saved if keep == "all" else min(keep, saved)


def checkpoint_bytes(resolved: Resolved, parameters: int) -> int:
    """Bytes of a checkpoint: weights, moments, and the best weights or an average."""
    beside = any(stage.patience or stage.average.kept for stage in resolved.stages)
    return WEIGHT_BYTES * parameters * (1 + MOMENTS + beside)


def finished_bytes(resolved: Resolved) -> int:
    """Bytes that a finished run keeps: its checkpoints and its model."""
    sizes = (model_weights(resolved.as_in(stage)) for stage in resolved.stages)
    parameters = max(sum(weight.numel for weight in weights) for weights in sizes)
    checkpoints = checkpoints_kept(resolved) * checkpoint_bytes(resolved, parameters)
    return checkpoints + WEIGHT_BYTES * parameters
