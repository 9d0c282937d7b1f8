"""``bertc eval``: held-out evaluation of a finished, stopped or imported run."""

from contextlib import closing
from pathlib import Path

import torch

from bertc.data import RunningData, TaskData, TextData, prepare
from bertc.diagnostics import DataError
from bertc.distributed.process_group import ProcessGroup
from bertc.evaluation.held_out import Evaluation, counted, evaluate, heldout_rows, unigram_nats
from bertc.evaluation.options import Manner, read_data, slide
from bertc.evaluation.tasks import (
    evaluate_files,
    evaluate_tasks,
    nothing_to_judge_by,
    sources_told,
)
from bertc.evaluation.without import (
    NOTHING_LEFT_OUT,
    LeftOut,
    leaving_out,
    refuse_compared_layers,
)
from bertc.evaluation.word_networks import TrainedNetworks
from bertc.host.display import Display, choose
from bertc.host.exact import preparing
from bertc.host.machine import detect, determinism, is_deterministic
from bertc.host.signals import Stop
from bertc.interop.folders import PROGRESS
from bertc.interop.loading import has_average, load
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.nn import Model
from bertc.planning.world import World
from bertc.runs.checkpoints import newest
from bertc.runs.folder import RunFolder
from bertc.step.objective import make_objective
from bertc.step.teachers import frozen_networks
from bertc.step.vocabulary import vocab_tensors
from bertc.storage.paths import cache_folder
from bertc.train.report import Report
from bertc.train.resumed_plan import plan_of
from bertc.train.session import Watched
from bertc.train.state import Progress


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
    resolved, done = folder.read_resolved(), _progress(folder)
    resolved = resolved.held(done.held)
    with closing(choose(quiet)) as display:
        if task or part or (manner.examples and resolved.trained_at(done.step).tasks):
            manner.refuse_for_tasks()
            evaluation, notes = evaluate_files(
                run, task, part=part, most=manner.examples, left_out=left_out, progress=display
            )
        else:
            evaluation, notes = _as_in_training(
                folder, resolved, manner, cache, display, done, left_out
            )
    if has_average(run, done.step):
        notes = (*notes, f"of the average of the weights (average={_average_of(resolved, done)})")
    return Report(run, done.step, resolved.steps, done.tokens, done.seconds, evaluation, notes)


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
) -> tuple[Evaluation, tuple[str, ...]]:
    """Evaluate on the run's own held-out data; also returns lines that describe it."""
    machine = detect(resolved.run.device)
    with Stop() as stop, determinism(is_deterministic(resolved.run, machine.device)):
        lock = folder.read_lock()
        ranks = ProcessGroup(0, World(), stop)
        plan = plan_of(resolved, machine, lock, display)
        model, device = load(folder.path), torch.device(plan.device)
        if lacking := model.lacking():
            raise DataError(
                f"the folder has no head for {' or '.join(lacking)}: its loss would be random",
                help=f'train the head: init="{folder.path}" objective={"+".join(lacking)}',
            )
        model.to(device).compute_dtype = (
            torch.bfloat16 if plan.precision == "bf16" else torch.float32
        )
        if not lock:
            kinds = {share.corpus.kind for stage in resolved.stages for share in stage.data}
            display.note(f"an imported model names no text; evaluating on {', '.join(kinds)}")
        networks = TrainedNetworks(resolved.run.device)
        corpus = prepare(resolved, cache or cache_folder(), Watched(display, stop), networks)
        if lock and lock.data != corpus.fingerprint:
            raise DataError(
                "the text files have changed since this run was trained",
                help="restore the files: otherwise held-out text may overlap with training text",
            )
        trained = resolved.trained_at(progress.step)
        index = resolved.stages.index(trained)
        stage, microbatch = manner.read_by(model, trained), plan.microbatches[index]
        data, examples = corpus.stage(index), manner.examples or resolved.run.eval_examples
        if isinstance(data, TaskData):
            if not any(task_set.parts for task_set in data.sets):
                raise nothing_to_judge_by(stage.tasks[0])
            with leaving_out(model, left_out) as left:
                evaluation = evaluate_tasks(left, stage, data, stop, progress=display)
            return evaluation, sources_told(data)
        refuse_compared_layers(stage, left_out, folder.path)
        with leaving_out(model, left_out) as left:
            evaluation = _of_text(
                left, stage, data, manner.sliding, examples, microbatch, ranks, display
            )
        return evaluation, (manner.told(stage),)


def _of_text(
    model: Model,
    stage: Stage,
    data: TextData,
    sliding: int,
    examples: int,
    microbatch: int,
    ranks: ProcessGroup,
    display: Display,
) -> Evaluation:
    device, vocabulary = next(model.parameters()).device, data.vocabulary
    nats_v = unigram_nats(vocabulary, data.tokens, device)
    if sliding and isinstance(data, RunningData):
        return slide(model, stage, data, nats_v, sliding, examples, microbatch, display)
    read = read_data(data, stage)
    rows = heldout_rows(stage, microbatch, ranks)
    seed = model.resolved.run.seed
    frozen = frozen_networks(stage, device, model.compute_dtype, seed)
    return evaluate(
        model,
        stage,
        make_objective(model, stage, False, frozen),
        counted(read, rows, examples, display),
        vocab_tensors(vocabulary, preparing(device)),
        nats_v,
        microbatch,
        seed,
        ranks,
    )


def _progress(folder: RunFolder) -> Progress:
    """The progress of the run; a fresh one for an imported model."""
    checkpoint, _ = newest(folder.checkpoints, *folder.identities())
    return (
        Progress.of(checkpoint.progress, str(checkpoint.folder / PROGRESS))
        if checkpoint
        else Progress()
    )
