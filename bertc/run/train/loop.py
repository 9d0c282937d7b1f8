"""The training loop, in time order."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import torch
from torch import nn

from bertc.base.diagnostics import BertcError, DataError, GivenUpError, StoppedError
from bertc.base.storage.paths import cache_folder
from bertc.cost.planning.schedules import rate
from bertc.ir.program import Resolved, model_weights
from bertc.ir.terms.node import MASKED_HEAD
from bertc.learn.objectives import Inputs
from bertc.learn.optim.optimizers import zero_moments
from bertc.learn.step.feed import Batch, Feed
from bertc.learn.step.step import StepResult
from bertc.machine.display import Watched, choose
from bertc.machine.machine import kernels
from bertc.machine.memory import is_out_of_memory, keep_freed_memory, out_of_memory
from bertc.machine.process_group import join_group, world_here
from bertc.machine.signals import Stop
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.methods import Methods, act, end_of
from bertc.run.records.checkpoints import how_to_resume
from bertc.run.records.folder import RunFolder
from bertc.run.records.metrics import Sums, Tracking, refuse_untracked
from bertc.run.train.opening import finish, open_session, saying_nothing_began
from bertc.run.train.phase import Pace, Phase, open_phase, update_rule
from bertc.run.train.report import COLLAPSED, Report, loss_line, plateau_lines, score_lines
from bertc.run.train.session import Session
from bertc.run.train.start import RunPlace, machine_of, settle
from bertc.text.cache.store import Silent
from bertc.text.prepared.opening import anchor_at
from bertc.text.vocabularies import exact


def train(
    resolved: Resolved,
    out: Path,
    *,
    spec_text: str = "",
    resume: bool = False,
    cache: Path | None = None,
    quiet: bool = False,
    goes_on: Callable[[], bool] = lambda: True,
    tracking: Tracking | None = None,
) -> Report:
    """Train a program in the run folder ``out``, or resume the run in it.

    A run that was stopped or killed, and resumed, ends with the same weights, optimiser state and
    metrics (but for seconds) to the bit, on the same machine with the same versions; on a GPU to
    rounding, unless ``deterministic=yes``. Under torchrun each process calls this.
    """
    refuse_untracked(resolved.run.trackers, tracking)
    resolved = resolved.with_data(anchor_at)  # --resume may be said in another folder
    cache, folder, (rank, world) = cache or cache_folder(), RunFolder(out), world_here()
    with (
        Stop(shared=world.size > 1, quiet=quiet or rank > 0) as stop,
        closing(choose(quiet or rank > 0)) as display,
        keep_freed_memory(),
        join_group(resolved.run.device, stop, partial(how_to_resume, folder.checkpoints)) as ranks,
    ):
        place, main = RunPlace(folder, cache, display, ranks), ranks.is_main
        machine = machine_of(resolved.run.device, ranks)
        claimed = folder.claim() if main else nullcontext()
        with kernels(resolved.run, machine.device), claimed, folder.naming_home(resolved):
            learned = folder.tokenizer if resume else None
            progress = Watched(display, ranks.stop)
            resolved = ranks.in_turn(partial(exact, resolved, cache, progress, learned))
            if main:
                folder.admit(resolved, resume)
                if resume and not folder.holds_a_run:
                    display.note(f"{folder.path} holds no run yet: one begins")
            with saying_nothing_began(folder, ranks):
                start = settle(resolved, machine, place, resume)
            with open_session(start, place, spec_text, tracking) as session:
                for index in range(len(resolved.stages)):
                    _train_stage(session, index, goes_on)
                return finish(session)


def _train_stage(session: Session, index: int, goes_on: Callable[[], bool]) -> None:
    """Train the steps of a stage that are left, in time order."""
    stage, progress = session.resolved.stages[index], session.progress
    at_work = *session.resolved.run.methods, *stage.methods
    methods = tuple(act(method, session, stage) for method in at_work)
    end, _ = end_of(stage, progress.step, methods)
    if progress.step > end or progress.step == end == progress.evaluated:
        return
    session.enter(stage)
    phase = open_phase(session, index)
    for acting in methods:
        acting.begin(phase)
    inputs = phase.first_inputs() if session.plan.compile and progress.step < end else None
    if inputs is not None:
        _compile(phase, inputs)
    elif session.ranks.is_distributed:
        # DDP sums in an order that it settles in the first pass; all steps are to have the same.
        phase.rehearse()
    with phase.feed(progress.step - stage.first_step, stage.steps) as feed, Pace(session) as pace:
        while True:
            end, used = end_of(stage, progress.step, methods)
            _pause(phase, methods, end, pace, goes_on)
            if progress.step == end:
                return
            begun = time.perf_counter() - progress.seconds
            with _saved_when_stopped(session):
                for acting in methods:
                    acting.before_step(phase)
            with _saved_when_stopped(session), _saved_without_text(session):
                batch = pace.measure("batches", feed.take)
            position = max(used.values()) * stage.schedule_steps if used else progress.step
            learning_rate = rate(stage, position)
            result = pace.measure("steps", _step, phase, feed, batch, learning_rate)
            progress.step += 1
            for acting in methods:
                acting.after_step()
            progress.tokens += phase.tokens(batch)
            progress.sums.add(result.loss, result.losses, result.grad_norm)
            progress.seconds = time.perf_counter() - begun
            if progress.step % session.resolved.run.log_every == 0 or progress.step == end:
                means = progress.sums.means()
                session.write(stage, "train", {**means, "lr": learning_rate, **used})
                if not means["grad_norm"] and any(t.head_name == MASKED_HEAD for t in stage.tasks):
                    session.display.note(f"step {progress.step:,}: {COLLAPSED}")
                progress.sums = Sums()
            pace.show(stage, result.loss)
            progress.seconds = time.perf_counter() - begun


def _pause(
    phase: Phase, methods: Methods, end: int, pace: Pace, goes_on: Callable[[], bool]
) -> None:
    """Between two steps: evaluate and save if due, and stop if a signal came."""
    session = phase.session
    run, progress, evaluated = session.resolved.run, session.progress, session.progress.evaluated
    evaluation_due = progress.step % run.eval_every == 0 or progress.step == end
    with _saved_when_stopped(session):
        if evaluation_due and not phase.has_heldout:
            progress.evaluated = progress.step
        elif evaluation_due and progress.evaluated < progress.step:
            started = time.perf_counter()
            evaluation = pace.measure("evaluations", _evaluate, phase, methods)
            pace.evaluation_seconds = time.perf_counter() - started
            for acting in methods:
                acting.after_evaluation(evaluation)
        session.ranks.stop.check()
    if session.saving and session.saving.is_over:
        session.finish_saving()
    over = progress.step == end and phase.stage is session.resolved.stages[-1]
    before_the_end = evaluated < progress.evaluated and not over
    if before_the_end and not session.ranks.share(goes_on()):
        session.save()
        raise GivenUpError(f"given up after step {progress.step:,}, and saved")
    stays = progress.step in (saved.step for saved in run.save_at)
    saving_due = progress.step % run.save_every == 0 or stays or progress.step == end
    if evaluation_due or saving_due:
        pace.write_down()  # before the checkpoint, after which no kill may lose it
    if progress.step and saving_due:
        pace.measure("checkpoints", session.save if over else session.save_in_background)


@contextmanager
def _saved_when_stopped(session: Session) -> Iterator[None]:
    """Save the state after the last step if a signal stops this block."""
    try:
        yield
    except StoppedError:
        session.save()
        message = f"stopped after step {session.progress.step:,}, and saved"
        with session.ranks.raise_on_all():
            raise session.ranks.stop.error(message) from None


@contextmanager
def _saved_without_text(session: Session) -> Iterator[None]:
    """Save the state after the last step if text cannot be read, as when a store is out of reach.

    Not of several processes: the others are in a step, and saving takes all.
    """
    try:
        yield
    except BertcError as error:
        is_single, step = not session.ranks.is_distributed, session.progress.step
        if step and is_single and not isinstance(error, StoppedError):
            session.save()
            session.display.note(f"saved after step {step:,}, from where --resume goes on")
        raise


def _evaluate(phase: Phase, methods: Methods) -> Evaluation:
    """Evaluate on the held-out data, and write a line of metrics."""
    session, progress = phase.session, phase.session.progress
    with ExitStack() as around:
        for acting in methods:
            around.enter_context(acting.evaluating())
        evaluation = phase.evaluate(session.display)
    bad = [name for name, value in evaluation.losses.items() if not math.isfinite(value)]
    if bad:
        with session.ranks.raise_on_all():
            raise DataError(
                f"step {progress.step}: the held-out loss of {' and '.join(bad)} is not finite",
                help="precision=fp32 or a lower learning rate, in a new run",
            )
    session.write(phase.stage, "eval", evaluation.fields())
    progress.evaluated = progress.step
    lines = "; ".join([loss_line(evaluation), *score_lines(evaluation)])
    session.display.note(f"step {progress.step:,}: held-out {lines}")
    if phase.may_be_judged():
        for line in plateau_lines(evaluation, phase.stage):
            session.display.note(line)
    return evaluation


def _step(phase: Phase, feed: Feed, batch: Batch, learning_rate: float) -> StepResult:
    session = phase.session
    look_ahead = _saved_without_text(session)(feed.look_ahead)
    with _saved_when_stopped(session), _naming_what_fits(phase, batch.inputs):
        result = phase.step(batch, session.progress.step, learning_rate, look_ahead)
    if session.progress.step == phase.stage.first_step:
        for term in phase.stage.objective:
            if term.objective.masks and term.name not in result.losses:
                session.display.note(f"{term.name} masks no token of the first batch")
    return result


@contextmanager
def _naming_what_fits(phase: Phase, inputs: Inputs | None) -> Iterator[None]:
    """Turn out-of-memory errors into one that names a micro-batch that fits; saves first."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return
    # After the except block, so that the tensors of the failed step are freed.
    if phase.session.ranks.is_distributed:  # the others wait inside a step, so nothing can be tried
        raise out_of_memory(phase.stage, phase.microbatch, None)
    phase.session.save()
    rehearse = None if inputs is None else partial(phase.step.rehearse, inputs)
    raise out_of_memory(phase.stage, phase.microbatch, rehearse)


def _compile(phase: Phase, inputs: Inputs) -> None:
    """Warm up compilation (train step and evaluation) without updating weights."""
    session = phase.session
    if session.progress.step:
        session.save()  # no signal is checked while the compiler runs
    session.display.note("compiling the step ...")
    started = time.perf_counter()
    with _naming_what_fits(phase, inputs):
        phase.step.rehearse(inputs, phase.microbatch)
        phase.evaluate(Silent(), batches=1)
        if phase.stage.optimizer.by_tensor and session.device.type == "cpu":
            # On copies of the weights.
            named = phase.model.named_parameters()
            copies = {name: nn.Parameter(weight.detach().clone()) for name, weight in named}
            for copy in copies.values():
                copy.grad = torch.zeros_like(copy)
            table = model_weights(session.resolved.as_in(phase.stage))
            moments = zero_moments(phase.stage.optimizer, table, copies)
            update_rule(session, phase.stage, copies, moments).update(0.0)
    session.display.note(f"compiled in {time.perf_counter() - started:.0f} s")
