"""Ends of a stage in training before its steps: by the clock, or with its best weights."""

import torch

from bertc.base.diagnostics import DataError
from bertc.ir.methods.ending import Clock, Patience
from bertc.learn.step.engines import local_shard
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.methods.acting import Acting
from bertc.run.records.metrics import Ended, describe
from bertc.run.records.results import mean_score
from bertc.run.train.phase import Phase
from bertc.run.train.state import Best


class ByClock(Acting[Clock]):
    """The time of a run, by the seconds of its first process."""

    def share_used(self) -> float:
        """The share of the time that is used, equal in all processes."""
        progress = self.session.progress
        progress.seconds = self.session.ranks.share(progress.seconds)
        return progress.seconds / self.method.seconds


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
            session.held[self.method.holds.file] = {name: one.clone() for name, one in weights}
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
        best = best or {name: torch.empty(one.shape) for name, one in parameters.items()}
        session.ranks.share_tensors(best)
        for name, parameter in parameters.items():
            local_shard(parameter).copy_(local_shard(engine.shard(best[name], name)))
        engine.forget_gathered()
        session.saved = -1
