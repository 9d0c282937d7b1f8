"""A stage in progress: its data, objective, training step and evaluations."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from bertc.ir.program.model import model_weights, trained_names
from bertc.ir.program.reading import adaptive_unit
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Inputs
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.optim.optimizers import UpdateRule, make_rule
from bertc.learn.step.feed import Batch, Feed, TaskFeed, examples_at_once, to_inputs
from bertc.learn.step.objective import make_objective
from bertc.learn.step.step import TrainStep
from bertc.learn.step.vocabulary import vocab_tensors
from bertc.run.beginning.teachers import frozen_networks
from bertc.run.evaluation.held_out import Evaluation, counted, evaluate, heldout_rows, unigram_nats
from bertc.run.evaluation.tasks import evaluate_tasks
from bertc.run.train.session import Session
from bertc.tasks.examples.task import TaskData
from bertc.text.batches.arranged import TextData
from bertc.text.cache.store import Progress


class Phase(ABC):
    """A stage in progress: its data, objective and training step."""

    has_heldout = True
    """There is something to evaluate on, of text always."""

    def __init__(self, session: Session, stage: Stage, microbatch: int) -> None:
        resolved, plan = session.resolved, session.plan
        self.stage, self.microbatch = stage, microbatch
        index = resolved.stages.index(stage)
        self.model = session.model
        for network in self.model.networks():
            network.recompute = plan.recompute[index]
        vocabulary = session.start.corpus.vocabulary
        self.vocab = vocab_tensors(vocabulary, session.device)
        dtype, seed = self.model.compute_dtype, resolved.run.seed
        frozen = frozen_networks(self.stage, session.device, dtype, seed, session.ranks)
        self.objective = session.engine.wrap(
            make_objective(self.model, stage, plan.compile, frozen), trained_names(stage)
        )
        rule = update_rule(session, stage, session.engine.parameters, session.moments)
        self.step = TrainStep(
            self.model, stage, self.vocab, rule, self.objective, microbatch, seed, session.ranks,
            session.engine, session.copies, session.remembered,
        )  # fmt: skip

    @abstractmethod
    def feed(self, session: Session, first: int, end: int) -> Feed | TaskFeed:
        """This process's batches of the stage, from step ``first`` of the stage to ``end``."""

    @abstractmethod
    def evaluate(self, session: Session, examples: int, progress: Progress) -> Evaluation:
        """Evaluate on the held-out data, of text on about the first ``examples`` of it."""

    def may_be_judged(self, session: Session) -> bool:
        """True in one evaluation of a run: the first after warm-up and a quarter of the steps."""
        program, step = session.resolved, session.progress.step
        first, every = program.stages[0], program.run.eval_every
        part = program.steps_by(step, session.progress.seconds) / program.steps  # of a clock's
        young = part * max(first.schedule_start + first.warmup_steps, program.steps // 4)
        before = max((step - 1) // every * every, self.stage.first_step)
        return before < young <= step

    @abstractmethod
    def tokens(self, session: Session, batch: Batch) -> int:
        """Tokens of a step in all processes, padding included."""

    @abstractmethod
    def first_inputs(self, session: Session) -> Inputs | None:
        """This process's rows of the first batch, to compile the step with; None: not compiled."""

    @abstractmethod
    def rehearse(self, session: Session) -> None:
        """Run forward and backward of the first micro-batch, without an update."""


class TextPhase(Phase):
    """A stage of text in progress."""

    def __init__(self, session: Session, stage: Stage, data: TextData, microbatch: int) -> None:
        super().__init__(session, stage, microbatch)
        self.data = data
        self.nats = unigram_nats(session.start.corpus.vocabulary, data.tokens, session.device)

    def feed(self, session: Session, first: int, end: int) -> Feed:
        """Batches that are corrupted several at once."""
        rows = session.ranks.rows(self.stage.batch) if session.ranks.is_distributed else None
        first, end = (self.stage.first_batch + step for step in (first, end))
        check, adaptive = session.ranks.stop.check, adaptive_unit(self.stage) is not None
        made = self.data, first, end, session.device, self.step.corrupt, rows, check, adaptive
        return Feed(*made)

    def evaluate(self, session: Session, examples: int, progress: Progress) -> Evaluation:
        rows = heldout_rows(self.stage, self.microbatch, session.ranks)
        return evaluate(
            self.model, self.stage, self.objective, counted(self.data, rows, examples, progress),
            self.vocab, (self.nats,), self.microbatch, session.resolved.run.seed, session.ranks,
        )  # fmt: skip

    def tokens(self, session: Session, batch: Batch) -> int:
        return self.stage.tokens_per_step

    def first_inputs(self, session: Session) -> Inputs:
        rows = session.ranks.rows(self.stage.batch)
        return to_inputs(self.data.train(0, rows), session.device)

    def rehearse(self, session: Session) -> None:
        self.step.rehearse(self.first_inputs(session), self.microbatch)


class TaskPhase(Phase):
    """A stage of tasks in progress."""

    def __init__(self, session: Session, stage: Stage, data: TaskData, fitting: int) -> None:
        self.has_heldout = any(task_set.parts for task_set in data.sets)
        microbatch = examples_at_once(data, stage, fitting, session.device)
        super().__init__(session, stage, microbatch)
        self.data = data

    def feed(self, session: Session, first: int, end: int) -> TaskFeed:
        """Batches in parts of rows of like length."""
        rows = session.ranks.rows(self.stage.batch) if session.ranks.is_distributed else None
        at_once = self.microbatch * self.stage.rows_an_example
        first, end = (self.stage.first_batch + step for step in (first, end))
        return TaskFeed(self.data, first, end, session.device, at_once, rows, self.stage)

    def evaluate(self, session: Session, examples: int, progress: Progress) -> Evaluation:
        """Scores on all held-out examples of every task."""
        reading, stop = session.engine.wrap_for_inference, session.ranks.stop
        return evaluate_tasks(self.model, self.stage, self.data, stop, reading, progress)

    def tokens(self, session: Session, batch: Batch) -> int:
        """Tokens as if all processes had as many as this one, which is about right."""
        tokens = sum(part.originals.numel() for part in batch.micro_batches)
        return session.ranks.world.size * tokens

    def first_inputs(self, session: Session) -> None:
        """Nothing: parts of a layer are compiled when they are met."""

    def rehearse(self, session: Session) -> None:
        with self.feed(session, 0, 1) as feed:
            self.step.try_out(feed.take().micro_batches[:1])


def open_phase(session: Session, index: int) -> Phase:
    """The stage of this index, by its data."""
    stage, fitting = session.resolved.stages[index], session.plan.microbatches[index]
    match session.start.corpus.stages[index]:
        case TaskData() as data:
            return TaskPhase(session, stage, data, fitting)
        case data:
            return TextPhase(session, stage, data, fitting)


def update_rule(
    session: Session, stage: Stage, parameters: Mapping[str, Tensor], moments: Moments
) -> UpdateRule:
    """The update rule of a stage, for these weights and moments."""
    table = model_weights(session.resolved.as_in(stage))
    done = session.progress.step - stage.counted_from
    add = session.ranks.add if session.copies < session.ranks.world.size else None
    how = session.plan.compile, add, session.plan.precision
    return make_rule(stage.optimizer, table, parameters, moments, done, *how)
