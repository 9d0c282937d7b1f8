"""Methods between the steps of a stage, in time order."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Generic, TypeVar

import torch

from bertc.base.diagnostics import DataError
from bertc.ir.methods.average import Ema
from bertc.ir.methods.ending import Clock, Patience
from bertc.ir.methods.method import Method
from bertc.ir.program import Stage
from bertc.learn.step.engines import local_shard, local_shards
from bertc.model.body import profile_as
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.records.metrics import Ended, describe
from bertc.run.records.results import mean_score
from bertc.run.train.phase import Phase
from bertc.run.train.session import Session
from bertc.run.train.state import Best

M = TypeVar("M", bound=Method)


class Acting(Generic[M]):
    """A method at work in a stage, by default one that does nothing; all processes call it alike.

    What it has are tensors in ``session.held``, which checkpoints save and restore.
    """

    def __init__(self, method: M, session: Session, stage: Stage) -> None:
        self.method, self.session, self.stage = method, session, stage

    def begin(self, phase: Phase) -> None:
        """Look at what the stage has, before its first step here."""

    def share_used(self) -> float | None:
        """The share of the stage that is over, if steps do not say it; at 1 the stage ends."""
        return None

    def before_step(self, phase: Phase) -> None:
        """Act before a batch is taken; a run that goes on from here does it again."""

    def after_step(self) -> None:
        """Act on the weights after an update; the step of ``progress`` counts it."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Surround an evaluation."""
        return nullcontext()

    def after_evaluation(self, evaluation: Evaluation) -> None:
        """Act on what an evaluation has said."""


class Averaging(Acting[Ema]):
    """The exponential moving average of a stage."""

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the average towards the weights, by the share that they have."""
        average, engine = self.session.held[self.method.holds.file], self.session.engine
        means = local_shards(average.values())
        weights = local_shards(engine.parameters[name] for name in average)
        with profile_as("optimiser"):
            torch._foreach_lerp_(means, weights, self.method.share_at(self.session.progress.step))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Exchange weights and their average within this block, if one has begun."""
        if not self.method.has_begun(self.session.progress.step):
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
            weights = weight_shard.clone()
            weight_shard.copy_(mean_shard)
            mean_shard.copy_(weights)
        engine.forget_gathered()


class ByClock(Acting[Clock]):
    """The time of a run, by the seconds of its first process."""

    def share_used(self) -> float:
        """The share of the time that is used, equal in all processes."""
        progress = self.session.progress
        progress.seconds = self.session.ranks.share(progress.seconds)
        return progress.seconds / self.session.resolved.run.most_seconds


class Waiting(Acting[Patience]):
    """The best weights of a stage, whole in the first process's main memory."""

    def begin(self, phase: Phase) -> None:
        """Refuse a stage that is never scored."""
        if not phase.has_heldout:
            evaluations = self.method.evaluations
            raise DataError(
                f"stage {phase.stage.name} has patience = {evaluations}, but none of its tasks has "
                "a dev part to score",
                help="name a dev file, or leave patience out",
            )

    def after_evaluation(self, evaluation: Evaluation) -> None:
        """Keep the weights if they are the best, and end the stage after enough others."""
        session, progress, stage = self.session, self.session.progress, self.stage
        end = stage.first_step + stage.steps
        score = session.ranks.share(mean_score(stage, evaluation.scores))
        if progress.best is None or score > progress.best.score:
            progress.best = Best(progress.step, score, evaluation.fields())
            weights = session.weights().items()
            session.held[self.method.holds.file] = {name: w.clone() for name, w in weights}
        else:
            progress.best.waited += 1
        best, ended = progress.best, progress.step
        if ended < end and best.waited < self.method.evaluations:
            return
        # Steps that are skipped count as made: the next stage begins at its usual step.
        progress.best, progress.step, progress.evaluated = None, end, end
        if best.step != ended:
            self._restore()
            ended_at = Ended(step=best.step, ended=ended, end=end)
            session.write(stage, "eval", {**best.shown, "best": ended_at})
            session.display.note(describe(ended_at))
        session.held[self.method.holds.file] = {}

    @torch.no_grad()
    def _restore(self) -> None:
        """Restore the best weights and mark the state as unsaved."""
        session, engine = self.session, self.session.engine
        parameters, best = engine.parameters, session.held[self.method.holds.file]
        best = best or {name: torch.empty(weight.shape) for name, weight in parameters.items()}
        session.ranks.share_tensors(best)
        for name, parameter in parameters.items():
            local_shard(parameter).copy_(local_shard(engine.shard(best[name], name)))
        engine.forget_gathered()
        session.saved = -1
