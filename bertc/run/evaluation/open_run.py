"""A run opened for evaluation: its model on a device, and the text or examples to read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bertc.base.diagnostics import DataError, UsageError
from bertc.base.storage.paths import cache_folder
from bertc.cost.planning.world import World
from bertc.ir.cleaning import EVERY
from bertc.ir.data import PAIRED, Files, Parallel, Share
from bertc.ir.learning import Objective, Task, Term
from bertc.ir.program import Resolved, Stage, split_rows
from bertc.ir.terms.node import is_answerable, translates
from bertc.ir.vocabulary import TokenizerFile
from bertc.machine.display import Display, Watched
from bertc.machine.machine import detect, determinism, dtype_of, is_deterministic
from bertc.machine.process_group import ProcessGroup
from bertc.machine.signals import AGAIN, Stop
from bertc.model import Model
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.task_lookup import one_program
from bertc.run.evaluation.word_networks import TrainedNetworks
from bertc.run.models.loading import load
from bertc.run.records.folder import RunFolder
from bertc.run.train.start import plan_of
from bertc.tasks.corpus import AnyData, PreparedCorpus, prepare
from bertc.text.cache.store import Progress
from bertc.text.tokenizers.reading import tokenizer_folder


def program_of_stage(resolved: Resolved, stage: Stage, run: Path, data: str) -> Resolved:
    """The program of one stage alone, read by the run's tokenizer, with ``data`` as its text."""
    settings: dict[str, Any] = {}
    if data:
        written = one_program("data", data).settings["data"].value if "(" in data else None
        named = written or [Share(corpus=Files(path=data))]
        shares = tuple(_lay_out(stage, share) for share in named)
        _refuse_shares(resolved, stage, shares)
        stage = stage.model_copy(update={"data": shares, "steps": 1, "first_batch": 0})
        settings |= {"holdout": 0.0, "clean": EVERY}
    return resolved.model_copy(
        update={
            "stages": (stage,),
            "vocabulary": TokenizerFile(path=str(tokenizer_folder(run))),
            "run": resolved.run.model_copy(update=settings),
        }
    )


def with_objective(stage: Stage, objective: str, run: Path) -> tuple[Stage, dict[str, str]]:
    """The stage with another objective, and the heads that answer it: learned one by asked one.

    A question about pairs is answered by the head of another one (Lan et al. 2020, table 5).
    """
    terms: tuple[Term, ...] = one_program("objective", objective).settings["objective"].value
    if any(isinstance(term.objective, Task) or term.objective.teaching for term in terms):
        message = "--objective asks what is learned from text alone"
        raise UsageError(message, "--task for tasks; teachers are asked in training")
    for turned in split_rows(stage)[1:]:
        if [term.name for term in terms] == [term.name for term in turned.objective]:
            stage = turned.model_copy(update={"batch": stage.batch})
            terms = tuple(Term(objective=term.objective) for term in turned.objective)
    heads = {term.objective.head_name: _head(stage, term.objective, run) for term in terms}
    pairs = {term.objective.pairs for term in terms} - {"none"}
    if len(pairs) > 1:
        message = f"{objective} makes pairs in {len(pairs)} ways"
        raise UsageError(message, "ask one after the other")
    paired = next(iter(pairs), "consecutive") if stage.format.kind in PAIRED else "none"
    return stage.model_copy(update={"objective": terms, "teacher": (), "pairs": paired}), heads


def _head(stage: Stage, query: Objective, run: Path) -> str:
    """The name of the learned head that answers an objective."""
    learned = [term.objective for term in stage.objective]
    equal = [item for item in learned if item.head_name == query.head_name]
    alike = [item for item in learned if query.pairs != "none" and item.pairs != "none"]
    answering = next(iter(equal + alike), None)
    if answering is None:
        titles = " and ".join(item.title for item in learned)
        raise UsageError(
            f"this run learned {titles}: it has no head for {query.title}, whose answers would be "
            "chance",
            help=f'train one: init="{run}" objective={query.title}',
        )
    missing = query.replaces and not (stage.sampled or stage.replacements.kind != "none")
    if missing or not is_answerable(query, stage.encoder):
        raise UsageError(f"this network cannot read text as {query.title} asks")
    return answering.head_name


def _lay_out(stage: Stage, share: Share) -> Share:
    """A source as the run's own is laid out: its column and sentences, and its one language."""
    corpus = share.corpus
    if not corpus.layout:
        return share
    first = next((item.corpus for item in stage.data if item.corpus.layout == corpus.layout), None)
    known = {name: getattr(first, name) for name in corpus.layout if first}
    languages = {language for item in stage.data for language in item.corpus.languages}
    known |= {"language": languages.pop()} if len(languages) == 1 else {}
    missing = {name: value for name, value in known.items() if name not in corpus.model_fields_set}
    return share.model_copy(update={"corpus": corpus.model_copy(update=missing)})


def _refuse_shares(resolved: Resolved, stage: Stage, shares: tuple[Share, ...]) -> None:
    languages = {language for share in shares for language in share.corpus.languages} - {""}
    if unknown := sorted(languages - {*resolved.languages}):
        message = f"the run knows no language {' or '.join(unknown)}"
        raise UsageError(message, f"name one of {', '.join(resolved.languages)}, or none")
    paired = any(isinstance(share.corpus, Parallel) for share in shares)
    if all(translates(term.objective) for term in stage.objective) and not paired:
        first, second = ("en", "fr") if len(resolved.languages) < 2 else resolved.languages[:2]
        message = "this run learned from pairs of sentences alone"
        raise DataError(message, f'--data \'pairs({first}="a.{first}", {second}="a.{second}")\'')


class OpenRun(NamedTuple):
    """A model set to read as asked, its stage and data; ``examples`` is how many by default."""

    model: Model
    stage: Stage
    data: AnyData
    microbatch: int
    examples: int
    ranks: ProcessGroup


@contextmanager
def open_run(
    run: RunFolder, resolved: Resolved, step: int, how: Manner, cache: Path | None, display: Display
) -> Iterator[OpenRun]:
    """Load the model that a run has after ``step`` steps, and open the data of that stage."""
    machine = detect(resolved.run.device)
    with Stop(way_on=AGAIN) as stop, determinism(is_deterministic(resolved.run, machine.device)):
        lock = run.read_lock()
        ranks = ProcessGroup(0, World(), stop)
        plan = plan_of(resolved, machine, lock, display, ranks.world)
        model, trained = load(run.path), resolved.stage_after(step)
        if lacking := model.lacking():
            message = f"the folder has no head for {' or '.join(lacking)}: its loss would be random"
            help = f'train the head: init="{run.path}" objective={"+".join(lacking)}'
            raise DataError(message, help)
        model.to(plan.device).compute_dtype = dtype_of(plan)
        index = resolved.stages.index(trained)
        if trained.tasks:
            how.refuse_for_tasks()
        stage: Stage = trained
        if how.objective:
            stage, heads = with_objective(trained, how.objective, run.path)
            for name, learned in heads.items():
                model.heads.answer(name, learned)
        stage, watched = how.read_by(model, stage), Watched(display, stop)
        where, networks = cache or cache_folder(), TrainedNetworks(resolved.run.device)
        if not how.data:
            if not lock:
                kinds = {share.corpus.kind for part in resolved.stages for share in part.data}
                display.note(f"an imported model names no text; evaluating on {', '.join(kinds)}")
            data = read_text(run, resolved, where, watched).stages[index]
        if how.data or how.objective:
            program = program_of_stage(resolved, stage, run.path, how.data)
            data, stage = prepare(program, where, watched, networks).stages[0], program.stages[0]
        microbatch, examples = plan.microbatches[index], resolved.run.eval_examples
        yield OpenRun(model, stage, data, microbatch, examples, ranks)


def read_text(run: RunFolder, resolved: Resolved, cache: Path, watched: Progress) -> PreparedCorpus:
    """The text that a run was trained on, if it is the same."""
    networks = TrainedNetworks(resolved.run.device)
    with run.naming_home(resolved):
        corpus, lock = prepare(resolved, cache, watched, networks, run.tokenizer), run.read_lock()
    if lock and lock.data != corpus.fingerprint:
        help = "restore the files: otherwise held-out text may overlap with training text"
        raise DataError("the text files have changed since this run was trained", help)
    return corpus
