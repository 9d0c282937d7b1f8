"""``bertc eval``: held-out evaluation of a finished, stopped or imported run."""

import time
from contextlib import closing
from pathlib import Path

import torch

from bertc.data.batches.arranged import TextData
from bertc.data.batches.running import RunningData
from bertc.data.examples.task_data import TaskData
from bertc.data.vocab.vocabulary import characters_by_token
from bertc.hub.folders import PROGRESS
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.objective import make_objective
from bertc.learn.step.vocabulary import vocab_tensors
from bertc.machine.display import Display, choose
from bertc.machine.exact import preparing
from bertc.model import Model
from bertc.run.beginning.teachers import frozen_networks
from bertc.run.evaluation.held_out import Evaluation, counted, evaluate, heldout_rows, unigram_nats
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.open_run import OpenRun, open_run
from bertc.run.evaluation.options import read_data, slide
from bertc.run.evaluation.reading import NextTokenCost, next_token_cost
from bertc.run.evaluation.remarks import plateau_lines
from bertc.run.evaluation.task_lookup import nothing_to_judge_by
from bertc.run.evaluation.tasks import evaluate_files, evaluate_tasks, sources_told
from bertc.run.evaluation.without import (
    NOTHING_LEFT_OUT,
    LeftOut,
    leaving_out,
    refuse_compared_layers,
)
from bertc.run.models.loading import has_average
from bertc.run.records.checkpoints import newest
from bertc.run.records.folder import RunFolder
from bertc.run.train.report import Report
from bertc.run.train.state import Progress

EVERYTHING = 1 << 40
"""More rows and tokens than any text has."""
Evaluated = tuple[Evaluation, tuple[str, ...], NextTokenCost | None]
"""An evaluation, lines that describe it, and what next tokens cost."""


def evaluate_run(
    run: Path,
    manner: Manner | None = None,
    *,
    task: str = "",
    part: str = "",
    left_out: LeftOut = NOTHING_LEFT_OUT,
    cache: Path | None = None,
    quiet: bool = False,
) -> Report:
    """Evaluate the newest valid checkpoint, by default on the examples used during training.

    ``manner`` changes how held-out text is read; ``task`` (see ``task_of``) names other files,
    ``part`` another part of the data, such as ``test``. ``left_out`` are heads and layers
    that the model is evaluated without.

    Raises:
        MissingInputError: if the folder holds no run, or no model yet.
        DataError: if the run's files are damaged, or its text has changed.
        UsageError: if the text cannot be read as ``manner`` says, or as ``task_of``.
    """
    manner = manner or Manner()
    folder = RunFolder(run)
    resolved, done = folder.read_resolved(), progress_of(folder)
    with closing(choose(quiet)) as display:
        if task or part or (manner.examples and resolved.trained_at(done.step).tasks):
            manner.refuse_for_tasks()
            evaluation, notes = evaluate_files(
                run, task, part=part, most=manner.examples, left_out=left_out, progress=display
            )
            reading = None
        else:
            evaluation, notes, reading = _as_in_training(
                folder, resolved, manner, cache, display, done, left_out
            )
    notes = (*plateau_lines(evaluation, resolved, resolved.trained_at(done.step)), *notes)
    if has_average(run, done.step):
        notes = (*notes, f"of the average of the weights (average={_average_of(resolved, done)})")
    return Report(
        run,
        done.step,
        resolved.steps,
        done.tokens,
        done.seconds,
        evaluation,
        notes,
        reading=reading,
    )


def _average_of(resolved: Resolved, done: Progress) -> str:
    return resolved.trained_at(done.step).average.kind


def _as_in_training(
    folder: RunFolder,
    resolved: Resolved,
    manner: Manner,
    cache: Path | None,
    display: Display,
    progress: Progress,
    left_out: LeftOut,
) -> Evaluated:
    """Evaluate on the run's own held-out data, or on other text."""
    with open_run(folder, resolved, progress.step, manner, cache, display) as run:
        if isinstance(run.data, TaskData):
            if not any(task_set.parts for task_set in run.data.sets):
                raise nothing_to_judge_by(run.stage.tasks[0])
            with leaving_out(run.model, left_out) as lesser:
                evaluation = evaluate_tasks(lesser, run.stage, run.data, run.stop, progress=display)
            return evaluation, sources_told(run.data), None
        refuse_compared_layers(run.stage, left_out, folder.path)
        with leaving_out(run.model, left_out) as lesser:
            evaluation, seconds = _of_text(lesser, run, run.data, manner, display)
        return (
            evaluation,
            (manner.told(run.stage),),
            next_token_cost(evaluation, run.stage, seconds),
        )


def _of_text(
    model: Model, run: OpenRun, data: TextData, manner: Manner, display: Display
) -> tuple[Evaluation, float]:
    """The evaluation, and the seconds that it took."""
    stage, device, vocabulary = run.stage, next(model.parameters()).device, data.vocabulary
    nats_v = unigram_nats(vocabulary, data.tokens, device)
    known = characters_by_token(vocabulary)
    costs = [nats_v, *([] if known is None else [torch.from_numpy(known).to(nats_v)])]
    examples = manner.examples or (EVERYTHING if manner.data else run.examples)
    began = time.perf_counter()
    if manner.sliding and isinstance(data, RunningData):
        evaluation = slide(model, stage, data, costs, manner, examples, run.microbatch, display)
        return evaluation, time.perf_counter() - began
    rows = heldout_rows(stage, run.microbatch, run.ranks)
    seed = model.resolved.run.seed
    objective = make_objective(
        model, stage, False, frozen_networks(stage, device, model.compute_dtype, seed)
    )
    began = time.perf_counter()
    evaluation = evaluate(
        model,
        stage,
        objective,
        counted(read_data(data, stage), rows, examples, display),
        vocab_tensors(vocabulary, preparing(device)),
        costs,
        run.microbatch,
        seed,
        run.ranks,
    )
    return evaluation, time.perf_counter() - began


def progress_of(folder: RunFolder) -> Progress:
    """The progress of the run; a fresh one for an imported model."""
    checkpoint, _ = newest(folder.checkpoints, *folder.identities())
    return (
        Progress.of(checkpoint.progress, str(checkpoint.folder / PROGRESS))
        if checkpoint
        else Progress()
    )
