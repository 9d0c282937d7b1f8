"""A stage in progress: its data, objective, training step and evaluations, its speed."""

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import ParamSpec, Self, TypeVar

from torch import Tensor

from bertc.base.diagnostics import CannotWriteError
from bertc.cost.flops import executed_flops
from bertc.ir.program import Resolved, Stage, adaptive_unit, model_weights, trained_names
from bertc.learn.objectives import Inputs
from bertc.learn.optim.by_tensor import Moments
from bertc.learn.optim.optimizers import UpdateRule, make_rule
from bertc.learn.step import feed as feeds
from bertc.learn.step.objective import make_objective
from bertc.learn.step.step import TrainStep
from bertc.machine.display import Standing
from bertc.machine.memory import begin_peak, peak_memory_bytes
from bertc.run.beginning.teachers import frozen_networks
from bertc.run.evaluation.held_out import Evaluation, evaluate, fetch, heldout_sizes, unigram_nats
from bertc.run.evaluation.tasks import evaluate_tasks
from bertc.run.records.metrics import Usage, append_line
from bertc.run.train.session import Session
from bertc.tasks.examples.task import TaskData
from bertc.text.batches.arranged import TextData
from bertc.text.cache.store import Progress


class Phase(ABC):
    """A stage in progress: its data, objective and training step."""

    has_heldout = True
    """There is something to evaluate on, of text always."""

    def __init__(self, session: Session, stage: Stage, microbatch: int) -> None:
        self.session, self.stage, self.microbatch = session, stage, microbatch
        plan, self.model = session.plan, session.model
        for network in self.model.networks():
            network.recompute = plan.recompute[session.resolved.stages.index(stage)]
        self.vocab = feeds.vocab_tensors(session.start.corpus.vocabulary, session.device)
        frozen = frozen_networks(self.stage, self.model, session.ranks)
        self.objective = session.engine.wrap(
            make_objective(self.model, stage, plan.compile, frozen), trained_names(stage)
        )
        rule = update_rule(session, stage, session.engine.parameters, session.moments)
        self.step = TrainStep(
            self.model, stage, self.vocab, rule, self.objective, microbatch, session.ranks,
            session.engine, session.copies, session.remembered,
        )  # fmt: skip

    @abstractmethod
    def feed(self, first: int, end: int) -> feeds.Feed:
        """This process's batches of the stage, from step ``first`` of the stage to ``end``."""

    def _rows(self) -> slice | None:
        """The rows of a batch that this process has; None: all."""
        ranks = self.session.ranks
        return ranks.rows(self.stage.batch) if ranks.is_distributed else None

    @abstractmethod
    def evaluate(self, progress: Progress, batches: int | None = None) -> Evaluation:
        """Evaluate on the held-out data, of text perhaps on its first ``batches`` alone."""

    def may_be_judged(self) -> bool:
        """True in one evaluation of a run: the first after warm-up and a quarter of the steps."""
        program, progress = self.session.resolved, self.session.progress
        step, first, period = progress.step, program.stages[0], program.run.eval_every
        part = program.steps_by(step, progress.seconds) / program.steps  # of a clock's
        young = part * max(first.schedule_start + first.warmup_steps, program.steps // 4)
        before = max((step - 1) // period * period, self.stage.first_step)
        return before < young <= step

    @abstractmethod
    def tokens(self, batch: feeds.Batch) -> int:
        """Tokens of a step in all processes, padding included."""

    @abstractmethod
    def first_inputs(self) -> Inputs | None:
        """This process's rows of the first batch, to compile the step with; None: not compiled."""

    @abstractmethod
    def rehearse(self) -> None:
        """Run forward and backward of the first micro-batch, without an update."""


class TextPhase(Phase):
    """A stage of text in progress."""

    def __init__(self, session: Session, stage: Stage, data: TextData, microbatch: int) -> None:
        super().__init__(session, stage, microbatch)
        self.data = data
        self.nats = unigram_nats(session.start.corpus.vocabulary, data.tokens, session.device)

    def feed(self, first: int, end: int) -> feeds.Feed:
        """Batches that are corrupted several at once."""
        begun = self.stage.first_batch
        return feeds.text_feed(
            self.data, begun + first, begun + end, self.session.device, self.step.corrupt,
            self._rows(), self.session.ranks.stop.check, adaptive_unit(self.stage) is not None,
        )  # fmt: skip

    def evaluate(self, progress: Progress, batches: int | None = None) -> Evaluation:
        ranks, examples = self.session.ranks, self.session.resolved.run.eval_examples
        sizes = heldout_sizes(self.stage, self.microbatch, ranks)
        read = islice(fetch(self.data, sizes, examples, progress), batches)
        return evaluate(
            self.model, self.stage, self.objective, read, self.vocab, (self.nats,),
            self.microbatch, ranks,
        )  # fmt: skip

    def tokens(self, batch: feeds.Batch) -> int:
        return self.stage.tokens_per_step

    def first_inputs(self) -> Inputs:
        rows = self.session.ranks.rows(self.stage.batch)
        return feeds.to_inputs(self.data.train(0, rows), self.session.device)

    def rehearse(self) -> None:
        self.step.rehearse(self.first_inputs(), self.microbatch)


class TaskPhase(Phase):
    """A stage of tasks in progress."""

    def __init__(self, session: Session, stage: Stage, data: TaskData, fitting: int) -> None:
        self.has_heldout = any(task_set.parts for task_set in data.sets)
        super().__init__(
            session, stage, feeds.examples_at_once(data, stage, fitting, session.device)
        )
        self.data = data

    def feed(self, first: int, end: int) -> feeds.Feed:
        """Batches in parts of rows of like length."""
        at_once, device = self.microbatch * self.stage.rows_an_example, self.session.device
        first, end = (self.stage.first_batch + step for step in (first, end))
        return feeds.task_feed(self.data, self.stage, first, end, device, at_once, self._rows())

    def evaluate(self, progress: Progress, batches: int | None = None) -> Evaluation:
        """Scores on all held-out examples of every task."""
        reading, stop = self.session.engine.wrap_for_inference, self.session.ranks.stop
        return evaluate_tasks(self.model, self.stage, self.data, stop, reading, progress)

    def tokens(self, batch: feeds.Batch) -> int:
        """Tokens as if all processes had as many as this one, which is about right."""
        tokens = sum(part.originals.numel() for part in batch.micro_batches)
        return self.session.ranks.world.size * tokens

    def first_inputs(self) -> None:
        """Nothing: parts of a layer are compiled when they are met."""

    def rehearse(self) -> None:
        with self.feed(0, 1) as feed:
            self.step.try_out(feed.take().micro_batches[:1])


def open_phase(session: Session, index: int) -> Phase:
    """The stage of this index, by its data."""
    stage, fitting = session.resolved.stages[index], session.plan.microbatches[index]
    data = session.start.corpus.stages[index]
    if isinstance(data, TaskData):
        return TaskPhase(session, stage, data, fitting)
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


P = ParamSpec("P")
T = TypeVar("T")


def evaluations_due(resolved: Resolved, step: int) -> int:
    """The number of evaluations left after ``step`` steps, with one that is due then."""
    period, due = resolved.run.eval_every, 0
    for stage in resolved.stages:
        end, done = stage.first_step + stage.steps, max(stage.first_step, step - 1)
        due += max(0, end // period - done // period) + (end % period > 0 and end > done)
    return due


class Pace:
    """Speed and memory of this process on the stage, for the display and spent.jsonl.

    As a context it notes what is left to note when the stage ends, is stopped or fails.
    """

    def __init__(self, session: Session) -> None:
        begin_peak(session.device)  # What text, another stage or run held before is not its own.
        self._session = session
        self.evaluation_seconds = 0.0
        """Seconds of the last evaluation; 0 before one was timed."""
        self._made, self._spent = 0, defaultdict[str, float](float)
        stages = session.resolved.stages
        self._begin()
        self._warm = False
        # Worked out once: it takes milliseconds, and a step may take few.
        self._step_flops = [s.batch * executed_flops(s, s.batch).train for s in stages]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        with suppress(*[CannotWriteError] if failed else []):  # the first error says more
            self.write_down()

    def _begin(self) -> None:
        progress = self._session.progress
        self._steps, self._tokens, self._seconds = progress.step, progress.tokens, progress.seconds

    def measure(self, what: str, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call, and count its seconds among those of the stage, as ``what`` time goes to."""
        begun = time.monotonic()
        result = call(*arguments, **named)
        self._spent[what] += time.monotonic() - begun
        self._made += what == "steps"  # not those that patience leaves out
        return result

    def write_down(self) -> None:
        """Note in the run folder what the steps since the last note took."""
        session, step = self._session, self._session.progress.step
        if session.ranks.is_main and self._spent:
            memory = peak_memory_bytes(session.device.type)
            seconds = {what: round(spent, 6) for what, spent in self._spent.items()}
            line = Usage(session.stage.name, step, self._made, memory, seconds)
            append_line(session.folder.spent, asdict(line))
        self._made, self._spent = 0, defaultdict(float)

    def show(self, stage: Stage, loss: float) -> None:
        """Show progress, if it is time to."""
        self._session.display.step(lambda: self._standing(stage, loss))
        if not self._warm:
            self._begin()
            self._warm = True

    def _standing(self, stage: Stage, loss: float) -> Standing:
        progress, resolved = self._session.progress, self._session.resolved
        stages, most = resolved.stages, resolved.run.most_seconds
        seconds = max(1e-9, progress.seconds - self._seconds)
        # In steps of this stage: those of a deeper network, or of longer rows, take longer.
        step_flops = self._step_flops[stages.index(stage)]
        steps_left = sum(
            max(0, s.first_step + s.steps - max(progress.step, s.first_step)) * (flops / step_flops)
            for s, flops in zip(stages, self._step_flops, strict=True)
        )
        due = evaluations_due(self._session.resolved, progress.step)
        pace = seconds / max(1, progress.step - self._steps)
        remaining = steps_left * pace + due * self.evaluation_seconds
        remaining = max(0.0, most - progress.seconds) if most else remaining
        return Standing(
            step=progress.step, steps=resolved.steps_by(progress.step, progress.seconds),
            stage=stage.name, loss=loss,
            tokens_per_second=(progress.tokens - self._tokens) / seconds,
            seconds_left=remaining if self._warm else None,
            memory_bytes=peak_memory_bytes(self._session.device.type),
        )  # fmt: skip
