"""Averages of weights in training: updated after each step, exchanged with the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bertc.ir.methods.average import Ema
from bertc.learn.step.engines import local_shards
from bertc.model.parts import profile_as
from bertc.run.methods.acting import Acting


class Averaging(Acting[Ema]):
    """The exponential moving average of a stage."""

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the average towards the weights, by the share that they have."""
        average, engine = self.session.held[self.method.holds.file], self.session.engine
        means = local_shards(average.values())
        weights = local_shards(engine.parameters[name] for name in average)
        with profile_as("optimiser"):
            share = self.method.share_at(self.session.progress.step)
            torch._foreach_lerp_(means, weights, share)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Exchange weights and their average within this block, if one has begun."""
        if not self.method.begun(self.session.progress.step):
            yield
            return
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        """Exchange all tensors in place, one at a time."""
        engine = self.session.engine
        for name, mean in self.session.held[self.method.holds.file].items():
            weight_shard, mean_shard = local_shards((engine.parameters[name], mean))
            held = weight_shard.clone()
            weight_shard.copy_(mean_shard)
            mean_shard.copy_(held)
        engine.forget_gathered()
