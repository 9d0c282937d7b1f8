"""``average``: means of weights, kept up after each step, and put in the weights' place for a time.

Raw weights go on training. What is evaluated, exported, or begins a stage anew, is the average.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bertc.learn.step.engines import local_shards
from bertc.model.parts import profiled_as
from bertc.run.train.session import Session


@torch.no_grad()
def update_average(session: Session) -> None:
    """Move the average towards the weights after the last step, by the share that they have."""
    share = session.stage.average.share_at(session.progress.step)
    if share:
        means = local_shards(session.average.values())
        weights = local_shards(session.engine.parameters[name] for name in session.average)
        with profiled_as("optimiser"):
            torch._foreach_lerp_(means, weights, share)


@contextmanager
def in_average(session: Session) -> Iterator[None]:
    """Exchange weights and their average within this block, if one has begun."""
    if not session.averages:
        yield
        return
    _exchange(session)
    try:
        yield
    finally:
        _exchange(session)


@torch.no_grad()
def _exchange(session: Session) -> None:
    """Exchange all tensors in place, one at a time."""
    for name, mean in session.average.items():
        weight_shard, mean_shard = local_shards((session.engine.parameters[name], mean))
        held = weight_shard.clone()
        weight_shard.copy_(mean_shard)
        mean_shard.copy_(held)
    session.engine.forget_gathered()
