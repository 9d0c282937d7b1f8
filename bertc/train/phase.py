"""A stage in progress: its data, objective, training step and evaluations."""

from collections.abc import Mapping

from torch import Tensor

from bertc.data import Progress, TaskData
from bertc.evaluation.held_out import (
    Evaluation,
    counted,
    evaluate,
    heldout_rows,
    unigram_nats,
)
from bertc.evaluation.tasks import evaluate_tasks
from bertc.ir.program.model import model_weights, trained_names
from bertc.ir.program.resolved import Stage
from bertc.optim.lamb import Moments
from bertc.optim.optimizers import Rule, make_rule
from bertc.step.feed import Feed
from bertc.step.objective import make_objective
from bertc.step.step import TrainStep
from bertc.step.task_feed import TaskFeed, examples_at_once
from bertc.step.teachers import frozen_networks
from bertc.train.patience import require_dev_part
from bertc.train.session import Session


class Phase:
    """A stage in progress: its data, objective and training step."""

    def __init__(self, session: Session, index: int) -> None:
        resolved, plan = session.resolved, session.plan
        self.stage = resolved.stages[index]
        self.data = session.corpus.stage(index)
        self.microbatch = plan.microbatches[index]
        if isinstance(self.data, TaskData):
            require_dev_part(self.stage, self.data)
            fitting, device = self.microbatch, session.device
            self.microbatch = examples_at_once(self.data, self.stage, fitting, device)
        self.model = session.model
        for network in self.model.networks():
            network.recompute = plan.recompute[index]
        dtype, seed = self.model.compute_dtype, resolved.run.seed
        frozen = frozen_networks(self.stage, session.device, dtype, seed, session.ranks)
        self.objective = session.engine.wrap(
            make_objective(self.model, self.stage, plan.compile, frozen),
            trained_names(self.stage),
        )
        self.step = TrainStep(
            self.model,
            self.stage,
            session.vocab,
            update_rule(session, self.stage, session.engine.parameters, session.moments),
            self.objective,
            self.microbatch,
            resolved.run.seed,
            session.ranks,
            session.engine,
            session.copies,
            session.remembered,
        )
        self.nats = unigram_nats(session.corpus.vocabulary, self.data.tokens, session.device)

    @property
    def has_heldout(self) -> bool:
        """True if there is anything to evaluate on: a task may have training examples only."""
        data = self.data
        return not isinstance(data, TaskData) or any(task_set.parts for task_set in data.sets)

    def feed(self, session: Session, first: int) -> Feed | TaskFeed:
        """This process's batches of the stage, from step ``first`` of the stage on."""
        rows = session.ranks.rows(self.stage.batch) if session.ranks.is_distributed else None
        if isinstance(self.data, TaskData):
            at_once = self.microbatch * self.stage.rows_an_example
            steps, device = self.stage.steps, session.device
            return TaskFeed(self.data, first, steps, device, at_once, rows, self.stage)
        corrupt = self.step.corrupt
        return Feed(self.data, first, self.stage.steps, session.device, corrupt, rows)

    def evaluate(self, session: Session, examples: int, progress: Progress) -> Evaluation:
        """Evaluate on about the first ``examples`` held-out examples; tasks on all of theirs."""
        if isinstance(self.data, TaskData):
            reading, stop = session.engine.wrap_for_inference, session.ranks.stop
            return evaluate_tasks(self.model, self.stage, self.data, stop, reading, progress)
        rows = heldout_rows(self.stage, self.microbatch, session.ranks)
        return evaluate(
            self.model,
            self.stage,
            self.objective,
            counted(self.data, rows, examples, progress),
            session.vocab,
            self.nats,
            self.microbatch,
            session.resolved.run.seed,
            session.ranks,
        )


def update_rule(
    session: Session, stage: Stage, parameters: Mapping[str, Tensor], moments: Moments
) -> Rule:
    """The update rule of a stage, for these weights and moments."""
    table = model_weights(session.resolved.as_in(stage))
    done = session.progress.step - stage.counted_from
    add = session.ranks.add if session.copies < session.ranks.world.size else None
    return make_rule(stage.optimizer, table, parameters, moments, done, session.plan.compile, add)
