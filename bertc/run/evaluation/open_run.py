"""A run opened for evaluation: its model on a device, and the text or examples to read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bertc.base.diagnostics import DataError
from bertc.base.storage.paths import cache_folder
from bertc.cost.planning.world import World
from bertc.data.cache.store import Progress
from bertc.data.corpus import AnyData, PreparedCorpus, prepare
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.machine.display import Display, Watched
from bertc.machine.machine import detect, determinism, dtype_of, is_deterministic
from bertc.machine.process_group import ProcessGroup
from bertc.machine.signals import AGAIN, Stop
from bertc.model import Model
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.other_text import evaluated_alone, with_objective
from bertc.run.evaluation.word_networks import TrainedNetworks
from bertc.run.models.loading import load
from bertc.run.records.folder import RunFolder
from bertc.run.train.start import plan_of


class OpenRun(NamedTuple):
    """A model set to read as asked, its stage and data; ``examples`` is how many by default."""

    model: Model
    stage: Stage
    data: AnyData
    microbatch: int
    examples: int
    ranks: ProcessGroup
    stop: Stop


@contextmanager
def open_run(
    folder: RunFolder,
    resolved: Resolved,
    step: int,
    manner: Manner,
    cache: Path | None,
    display: Display,
) -> Iterator[OpenRun]:
    """Load the model that a run has after ``step`` steps, and open the data of that stage."""
    machine = detect(resolved.run.device)
    with Stop(way_on=AGAIN) as stop, determinism(is_deterministic(resolved.run, machine.device)):
        lock = folder.read_lock()
        ranks = ProcessGroup(0, World(), stop)
        plan = plan_of(resolved, machine, lock, display)
        model, trained = _loaded(folder.path), resolved.trained_at(step)
        model.to(plan.device).compute_dtype = dtype_of(plan)
        index = resolved.stages.index(trained)
        if trained.tasks:
            manner.refuse_for_tasks()
        stage: Stage = trained
        if manner.objective:
            stage, heads = with_objective(trained, manner.objective, folder.path)
            for name, learned in heads.items():
                model.heads.answer(name, learned)
        stage, watched = manner.read_by(model, stage), Watched(display, stop)
        where, networks = cache or cache_folder(), TrainedNetworks(resolved.run.device)
        if not manner.data:
            if not lock:
                kinds = {share.corpus.kind for part in resolved.stages for share in part.data}
                display.note(f"an imported model names no text; evaluating on {', '.join(kinds)}")
            data = read_text(folder, resolved, where, watched).stages[index]
        is_stream = trained.format.kind == "stream"
        if manner.data or manner.objective or (manner.sliding and not is_stream):
            program = evaluated_alone(resolved, stage, folder.path, manner.data)
            data, stage = prepare(program, where, watched, networks).stages[0], program.stages[0]
        microbatch, examples = plan.microbatches[index], resolved.run.eval_examples
        yield OpenRun(model, stage, data, microbatch, examples, ranks, stop)


def read_text(at: RunFolder, resolved: Resolved, cache: Path, progress: Progress) -> PreparedCorpus:
    """The text that a run was trained on, if it is the same."""
    networks = TrainedNetworks(resolved.run.device)
    with at.naming_home(resolved):
        corpus, lock = prepare(resolved, cache, progress, networks, at.tokenizer), at.read_lock()
    if lock and lock.data != corpus.fingerprint:
        raise DataError(
            "the text files have changed since this run was trained",
            help="restore the files: otherwise held-out text may overlap with training text",
        )
    return corpus


def _loaded(folder: Path) -> Model:
    model = load(folder)
    if lacking := model.lacking():
        raise DataError(
            f"the folder has no head for {' or '.join(lacking)}: its loss would be random",
            help=f'train the head: init="{folder}" objective={"+".join(lacking)}',
        )
    return model
